"""Where two traces part ways: the first step at which the engines decided something else.

From: two traces, for example of a reader's own scheduler and of the reference. To: `minfer trace view --compare`, which marks it.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from minfer.trace.replay import Frame, frames, sampled
from minfer.trace.trace import Trace

LONGEST = 60  # characters of a value in a message
WHAT = {
    "work": "the plan",
    "running": "the running queue",
    "waiting": "the waiting queue",
    "held": "the held sequences",
    "tables": "the block tables",
    "swapped": "the blocks in host memory",
    "copies": "the copies",
    "sampled": "the sampled tokens",
}


class Difference(NamedTuple):
    """The first one. `index` counts a trace's entries from 0."""

    index: int
    what: str  # a key of WHAT, or "end"
    message: str


def first_difference(one: Trace, other: Trace) -> Difference | None:
    """Compare what was decided, not how long it took; None where the traces agree from beginning to end.

    What is put first in a message is looked at first: a plan before the tables that follow from it.
    """
    for index, (mine, theirs) in enumerate(zip_longest(_planned(one), _planned(other))):
        if mine is None or theirs is None:
            longer = "second" if mine is None else "first"
            return Difference(index, "end", f"up to step {index - 1} they agree; then only the {longer} trace goes on")
        for key, what in WHAT.items():
            a, b = _view(mine, key), _view(theirs, key)
            if a != b:
                return Difference(index, key, f"{what} of step {mine.entry['step']}: {_first(a, b)}")
    return None


def _planned(trace: Trace):
    return (frame for frame in frames(trace) if "step" in frame.entry)


def _view(frame: Frame, key: str) -> list:
    """A frame's side of the comparison, as a list whose items can be put beside the other's."""
    if key == "work":
        return [f"sequence {task.seq}: {task.num_new} from {task.start}" for task in frame.work]
    if key == "sampled":
        return sampled(frame.work, frame.entry)
    if key == "copies":
        return frame.entry.get("copies", [])
    value = getattr(frame, key)
    return [f"sequence {seq}: {blocks}" for seq, blocks in sorted(value.items())] if isinstance(value, dict) else value


def _first(a: list, b: list) -> str:
    x, y = next(pair for pair in zip_longest(a, b, fillvalue="nothing") if pair[0] != pair[1])
    return f"{_short(x)} in the first trace, {_short(y)} in the second"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
