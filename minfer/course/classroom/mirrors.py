"""Sequences that the grader and the submission's process both have: the same fields, told to each other as they change.

The grader's are the ones that count. What the other side says of a field is taken over where it is of the right kind; a token only
where it was sampled for that sequence.

From: `wire.py` meets a Sequence on its way. To: the same sequence on the other side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from minfer.params import SamplingParams
from minfer.testing.properties import Differs
from minfer.types import Sequence, Status

INTS = ("token_ids", "block_table", "host_blocks")  # lists, kept as the same objects
COUNTS = ("num_computed", "num_pending", "num_sent_blocks", "num_cached", "num_preemptions")
OTHERS = ("row", "finish_reason", "stop_reason")
FIXED = ("seq_id", "request", "index", "sampling", "num_prompt", "limit")


def state(seq: Sequence) -> dict[str, Any]:
    """What may change, copied."""
    lists = {name: list(getattr(seq, name)) for name in INTS}
    return {**lists, **{name: getattr(seq, name) for name in (*COUNTS, *OTHERS)}, "status": seq.status.value}


def update(seq: Sequence, changes: dict[str, Any]) -> None:
    for name, value in changes.items():
        if name in INTS:
            getattr(seq, name)[:] = value
        else:
            setattr(seq, name, Status(value) if name == "status" else value)


@dataclass
class Mirrors:
    """The sequences of one run, by number."""

    sequences: dict[int, Sequence] = field(default_factory=dict)
    params: dict[int, SamplingParams] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)  # id of the object → number
    told: dict[int, dict[str, Any]] = field(default_factory=dict)  # what the other side knows
    sampled: dict[int, int] = field(default_factory=dict)  # number → the token that may be appended to it now
    complaint: Differs | None = None  # the first thing that the other side said and must not

    def add(self, known: dict, number: int, value: Sequence | SamplingParams) -> None:
        self.numbers[id(value)] = number
        known[number] = value

    def number_of(self, known: dict, value: Sequence | SamplingParams) -> tuple[int, bool]:
        """→ its number, and whether it is new."""
        number = self.numbers.get(id(value))
        if number is not None and known.get(number) is value:
            return number, False
        self.add(known, len(known), value)
        return len(known) - 1, True

    # In the grader

    def tell(self, seq: Sequence) -> tuple[int, dict | None, Sequence | None, dict]:
        """→ its number, its fixed fields where it is new, its parent, its state."""
        number, is_new = self.number_of(self.sequences, seq)
        fixed = {name: getattr(seq, name) for name in FIXED} if is_new else None
        return number, fixed, seq.parent, state(seq)

    def tell_params(self, params: SamplingParams) -> tuple[int, dict | None]:
        """→ its number, and where it is new, its fields. An answer names it by number."""
        number, is_new = self.number_of(self.params, params)
        return number, {each.name: getattr(params, each.name) for each in fields(params)} if is_new else None

    def believe(self, number: int, changes: dict[str, Any]) -> Sequence:
        """Take over what the other side says of a sequence, unless a field is of another kind or a token was not sampled."""
        seq = self.sequences[number]
        for name, value in changes.items():
            if name in INTS:
                fine = isinstance(value, list) and all(type(each) is int for each in value)
            elif name in COUNTS:
                fine = type(value) is int
            elif name == "status":
                fine = value in {status.value for status in Status}
            else:
                fine = name in OTHERS and (value is None or type(value) in (int, str))
            if not fine:
                return self.complain(seq, f"sequence {seq.seq_id} to keep a {name} of its kind", f"{value!r:.80}")
        ids = changes.pop("token_ids", None)
        if ids is not None and ids != seq.token_ids:
            token = self.sampled.pop(number, None)
            wanted = seq.token_ids if token is None else [*seq.token_ids, token]
            if ids != wanted:
                return self.complain(seq, f"sequence {seq.seq_id} to have the tokens that were sampled for it, {wanted}", ids)
            seq.token_ids.append(token)
        update(seq, changes)
        return seq

    def complain(self, seq: Sequence, expected: str, came: object) -> Sequence:
        self.complaint = self.complaint or Differs(expected, came)
        return seq

    # In the submission's process

    def hear(self, number: int, fixed: dict | None, parent: Sequence | None, changes: dict) -> Sequence:
        if fixed is not None:
            self.add(self.sequences, number, Sequence(**fixed, token_ids=[], parent=parent))
        seq = self.sequences[number]
        update(seq, changes)
        self.told[number] = state(seq)
        return seq

    def hear_params(self, number: int, values: dict | None) -> SamplingParams:
        if values is not None:
            self.add(self.params, number, SamplingParams(**values))
        return self.params[number]

    def changes(self, seq: Sequence) -> tuple[int, dict]:
        """What the grader does not know of it yet."""
        number = self.numbers[id(seq)]
        now, known = state(seq), self.told[number]
        self.told[number] = now
        return number, {name: value for name, value in now.items() if known.get(name) != value}

    def changed(self) -> list[Sequence]:
        return [seq for number, seq in self.sequences.items() if state(seq) != self.told[number]]
