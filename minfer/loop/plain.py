"""The plain loop: schedule, launch, wait, commit; the host and the device take turns.

From: requests that the engine has given to the scheduler. To: the engine turns the sequences that moved into outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from minfer.types import Sequence


def loop(scheduler, executor) -> Iterator[list[Sequence]]:
    """One step an iteration, until no work is left. Yields the sequences that got a token.

    Raises:
        RuntimeError: there is work, and the scheduler plans none of it: with nothing in flight it would wait for ever.
    """
    while scheduler.has_work():
        plan = scheduler.schedule()
        if plan is None:
            raise RuntimeError(
                f"{type(scheduler).__name__}.schedule() returned no plan although sequences are alive and no step is in flight; "
                "a scheduler must plan at least one of them"
            )
        pending = executor.launch(plan)
        yield scheduler.commit(plan, pending.wait())
