"""The replay: a trace's edits carried out one after the other, so that the engine's state is there again at every step.

From: a `Trace`. To: tests, the Chrome export, the comparison, notebooks. `player/state.mjs` does the same in the browser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minfer.trace.edits import apply_edit
from minfer.trace.trace import Trace

QUEUES = ("held", "waiting", "running")


class Task(NamedTuple):
    """One sequence's share of a step, as the plan gave it."""

    seq: int
    row: int
    start: int  # position of its first new token
    num_new: int
    samples: bool


@dataclass(slots=True)
class Frame:
    """The engine as a plan left it: what the step is about to compute, and who holds what meanwhile.

    `entry` is the trace's own. Frames of one replay share what did not change; treat them as read-only.
    """

    index: int
    entry: dict[str, Any]
    work: list[Task] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)  # the next one to be admitted first
    running: list[int] = field(default_factory=list)  # the last one gives way first
    tables: dict[int, list[int]] = field(default_factory=dict)  # by sequence: its blocks, in order
    swapped: dict[int, list[int]] = field(default_factory=dict)  # by sequence: its blocks in host memory
    computed: dict[int, int] = field(default_factory=dict)  # by sequence: tokens with K/V in the cache, once this step has run
    num_output: dict[int, int] = field(default_factory=dict)  # by sequence: output tokens that the host knew when it planned
    cached: frozenset[int] = frozenset()  # blocks that the prefix cache could hand out again
    num_free: int = 0
    in_flight: int = 0  # steps launched earlier whose tokens were not known yet

    def slots(self, block_size: int) -> dict[int, list[int]]:
        """By sequence: the slots that the step writes, block * block_size + offset each."""
        return {
            task.seq: [
                self.tables[task.seq][at // block_size] * block_size + at % block_size
                for at in range(task.start, task.start + task.num_new)
            ]
            for task in self.work
        }


def frames(trace: Trace) -> Iterator[Frame]:
    """One frame for each entry of the trace."""
    state = Frame(-1, {}, num_output={seq: each.get("num_output", 0) for seq, each in trace.sequences.items()})
    ends: dict[int, tuple[int, int]] = {}  # by sequence: its row, and where its next token would go
    last: list[Task] = []  # the work of the step before
    unread: list[tuple[list[Task], dict[str, Any]]] = []  # steps whose tokens the host has not seen yet
    for index, entry in enumerate(trace.content["steps"]):
        state = Frame(
            index,
            entry,
            [],
            *(apply_edit(getattr(state, name), entry[name]) if name in entry else getattr(state, name) for name in QUEUES),
            tables=_tables(state.tables, entry.get("tables", ())),
            swapped=_tables(state.swapped, entry.get("swapped", ())),
            computed=_changed(state.computed, dict.fromkeys(entry.get("preempted", ()), 0)),
            num_output=state.num_output,
            cached=state.cached.symmetric_difference(entry["cached"]) if "cached" in entry else state.cached,
            num_free=entry.get("free", state.num_free),
            in_flight=entry.get("in_flight", 0),
        )
        while len(unread) > state.in_flight:
            got = Counter(seq for seq, _ in sampled(*unread.pop(0)))
            state.num_output = _changed(state.num_output, {seq: state.num_output[seq] + count for seq, count in got.items()})
        if "step" in entry:
            state.work = last = _work(entry.get("work", [task.seq for task in last]), ends)
            state.computed = _changed(state.computed, {task.seq: task.start + task.num_new for task in last})
            unread.append((last, entry))
        yield state


def outputs(trace: Trace) -> dict[int, list[int]]:
    """By sequence: the output tokens that were recorded."""
    tokens: dict[int, list[int]] = {seq: [] for seq in trace.sequences}
    for frame in frames(trace):
        for seq, token in sampled(frame.work, frame.entry):
            tokens[seq].append(token)
    return tokens


def sampled(work: list[Task], entry: dict[str, Any]) -> list[tuple[int, int]]:
    """(sequence, token) for each token that a step sampled. -1 in a trace stands for one that nobody was there to take."""
    sampling = [task.seq for task in work if task.samples]
    return [(seq, token) for seq, token in zip(sampling, entry.get("sampled", ()), strict=False) if token >= 0]


def _changed(old: dict[int, int], new: dict[int, int]) -> dict[int, int]:
    return {**old, **new} if new else old


def _tables(tables: dict[int, list[int]], edits: list[list]) -> dict[int, list[int]]:
    """An empty table is left out."""
    if not edits:
        return tables
    tables = dict(tables)
    for seq, keep, blocks in edits:
        tables[seq] = tables.get(seq, [])[:keep] + blocks
        if not tables[seq]:
            del tables[seq]
    return tables


def _work(listed: list, ends: dict[int, tuple[int, int]]) -> list[Task]:
    """A sequence's id alone stands for its next token, which it samples."""
    work = []
    for each in listed:
        seq, row, start, num_new, samples = each if isinstance(each, list) else (each, *ends[each], 1, 1)
        task = Task(seq, row, start, num_new, bool(samples))
        ends[task.seq] = task.row, task.start + task.num_new
        work.append(task)
    return work

