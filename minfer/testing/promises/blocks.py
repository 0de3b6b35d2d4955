"""What a prefix cache promises: a prefix that was computed is found again, until its memory is needed; and in which order it goes.

The pool is driven as the slot's suite does it, `minfer/testing/suites/blocks.py`; what must be found is known from the tokens alone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.testing.properties import Case, Place, Property, expect
from minfer.testing.suites.blocks import MAX_LEN, Pool
from minfer.testing.toy import toy_config
from minfer.types import Request, Sampling, Sequence, Status

AMPLE = 200  # blocks: more than a case can fill, so that none is ever used twice


def cases(place: Place, ends: bool) -> st.SearchStrategy[Case]:
    """Sequences of long, similar prompts that begin and go on; with `ends`, they end as well."""
    prompt = st.lists(st.integers(0, 1), min_size=3, max_size=12)
    new = st.fixed_dictionaries({"new": prompt})
    run = st.fixed_dictionaries({"run": st.integers(0, 5), "tokens": st.integers(1, 12)})
    events = [new, run, run, *([st.fixed_dictionaries({"free": st.integers(0, 5)})] if ends else [])]
    return st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 4),
            "num_blocks": st.just(AMPLE),
            "keep": st.just(0),
            "events": st.tuples(prompt, st.lists(st.one_of(*events), min_size=2, max_size=20)).map(
                lambda drawn: [{"new": drawn[0]}, {"run": 0, "tokens": 12}, *drawn[1]]
            ),
        }
    )


class Remembering(Pool):
    """Knows which prefixes were computed in whole blocks."""

    def __init__(self, part: Any, case: Case):
        super().__init__(part, case)
        self.computed: set[tuple[int, ...]] = set()

    def run(self, seq: Sequence, count: int) -> None:
        super().run(seq, count)
        if not seq.finished:
            whole = min(seq.num_computed, seq.num_tokens) // self.size
            self.computed.update(tuple(seq.token_ids[: n * self.size]) for n in range(1, whole + 1))

    def admit(self, seq: Sequence) -> bool:
        wanted = 0
        while wanted + self.size < seq.num_tokens and tuple(seq.token_ids[: wanted + self.size]) in self.computed:
            wanted += self.size
        found = self.blocks.lookup(seq)
        expect(
            found == wanted,
            f"{wanted} of the {seq.num_tokens} tokens {seq.token_ids} to be found: so many were computed before, in whole blocks of "
            f"{self.size} and without the last token",
            f"{found} found",
        )
        return super().admit(seq)


class Alive(Remembering):
    """Nobody ends."""

    def play(self) -> None:
        for event in self.case["events"]:
            if "new" in event:
                self.add(event["new"], None)
            else:
                self.run(self.seqs[event["run"] % len(self.seqs)], event["tokens"])
            self.check()


def check_alive(part: Any, case: Case) -> None:
    Alive(part, case).play()


def check_kept(part: Any, case: Case) -> None:
    Remembering(part, case).play()


def order_cases(place: Place) -> st.SearchStrategy[Case]:
    """Sequences of so many blocks each, the order in which they end, and how many blocks are then needed."""
    lengths = st.lists(st.integers(1, 3), min_size=1, max_size=4)
    return lengths.flatmap(
        lambda blocks: st.fixed_dictionaries(
            {
                "block_size": st.integers(1, 4),
                "lengths": st.just(blocks),
                "ends": st.permutations(range(len(blocks))),
                "needed": st.integers(1, sum(blocks)),
            }
        )
    )


def check_order(part: Any, case: Case) -> None:
    """Fill the pool with prompts that have nothing in common, end them, take some blocks, and see which prefixes are left."""
    size, lengths = case["block_size"], case["lengths"]
    blocks = part(1 + sum(lengths), part.size_of_block(toy_config(block_size=size, max_model_len=MAX_LEN)))
    seqs = [sequence(number, [10 * number] * (count * size)) for number, count in enumerate(lengths)]
    for seq in seqs:
        compute(blocks, seq)
    for number in case["ends"]:
        blocks.free(seqs[number])
    compute(blocks, sequence(99, [7] * (case["needed"] * size)))
    going = [number for number in case["ends"] for _ in range(lengths[number])]  # the owner of each block, first to go first
    lost = going[: case["needed"]]
    for number, count in enumerate(lengths):
        wanted = (count - lost.count(number)) * size
        found = blocks.lookup(sequence(100 + number, [*seqs[number].token_ids, 1]))
        expect(
            found == wanted,
            f"{wanted} of the {count * size} tokens of sequence {number} to be found still: of {lengths} blocks, ended in the order "
            f"{case['ends']}, {case['needed']} were needed, and each sequence loses its last blocks first",
            f"{found} found",
        )


def sequence(number: int, ids: list[int]) -> Sequence:
    """A request of its own, waiting."""
    request = Request(str(number), tuple(ids), SamplingParams())
    return Sequence(number, request, 0, Sampling(request.params, 0, (), len(ids)), list(ids), len(ids), 10**6)


def compute(blocks: Any, seq: Sequence) -> None:
    """Admit it and compute its prompt."""
    seq.num_computed = blocks.match(seq)
    expect(blocks.allocate(seq, seq.num_tokens), f"room for {seq.num_tokens} tokens, with {blocks.num_free} blocks free", "no room")
    seq.status = Status.RUNNING
    seq.num_computed = seq.num_tokens
    blocks.commit(seq)


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {"block_size": {size: {**case, "block_size": size} for size in range(1, 5)}}


PROPERTIES = [
    Property(
        "alive",
        "What a living sequence has computed in whole blocks is found by the next one that begins with the same tokens.",
        lambda place: cases(place, ends=False),
        check_alive,
        200,
        vary,
    ),
    Property(
        "kept",
        "It is found after that sequence has ended as well, as long as other free blocks could be used.",
        lambda place: cases(place, ends=True),
        check_kept,
        200,
        vary,
    ),
    Property(
        "order",
        "Where memory is needed, what has been free for longest goes first, and the end of a sequence before its beginning.",
        order_cases,
        check_order,
        200,
        vary,
    ),
]
