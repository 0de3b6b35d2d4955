"""What each sequence did in each step, as spans: queued, prefill, decode, idle, swapped or preempted.

From: `replay.py`. To: the Chrome export. `player/phases.mjs` does the same for the player's timeline.
"""

from __future__ import annotations

from typing import NamedTuple

from minfer.trace.replay import Frame, frames
from minfer.trace.trace import Trace

PHASES = ("queued", "held", "prefill", "decode", "idle", "preempted")


class Span(NamedTuple):
    """Of one sequence: entries first .. last of the trace, both included."""

    seq: int
    phase: str
    first: int
    last: int


def spans(trace: Trace) -> list[Span]:
    """In the order in which they end. A sequence has none before it arrived and after it ended."""
    done: list[Span] = []
    open_spans: dict[int, tuple[str, int]] = {}
    gave_way: set[int] = set()
    last = -1
    for frame in frames(trace):
        last = frame.index
        gave_way |= set(frame.entry.get("preempted", ()))
        now = phases_of(frame, gave_way)
        gave_way -= set(frame.running)
        for seq in [*open_spans]:
            phase, first = open_spans[seq]
            if now.get(seq) != phase:
                done.append(Span(seq, phase, first, last - 1))
                del open_spans[seq]
        for seq, phase in now.items():
            open_spans.setdefault(seq, (phase, last))
    return done + [Span(seq, phase, first, last) for seq, (phase, first) in open_spans.items()]


def phases_of(frame: Frame, gave_way: set[int]) -> dict[int, str]:
    """Of every live sequence. `gave_way` are those that were preempted and have not run again."""
    phases = {seq: "preempted" if seq in gave_way else "queued" for seq in frame.waiting}
    phases |= {seq: "preempted" if seq in gave_way else "held" for seq in frame.held}
    phases |= dict.fromkeys(frame.running, "idle")
    phases |= {task.seq: "decode" if task.num_new == 1 and task.samples else "prefill" for task in frame.work}
    return phases
