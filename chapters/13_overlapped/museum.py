"""Bug museum, chapter 13: a loop with one fault of a kind that engines have had. Find it before you read on.

    minfer check loop --part chapters/13_overlapped/museum.py:loop
"""

from __future__ import annotations

from collections.abc import Iterator

from minfer.types import Sequence


def loop(scheduler, executor) -> Iterator[list[Sequence]]:
    """One step an iteration, until no sequence is alive. Yields the sequences that got a token."""
    in_flight = None
    while scheduler.has_work():
        plan = scheduler.schedule()
        if plan is None and in_flight is None:
            raise RuntimeError(f"{type(scheduler).__name__} plans none of the sequences that are alive")
        launched = (plan, executor.launch(plan)) if plan is not None else None
        moved = []
        if in_flight is not None:
            earlier, pending = in_flight
            moved = scheduler.commit(earlier, pending.wait())
        in_flight = launched
        yield moved
