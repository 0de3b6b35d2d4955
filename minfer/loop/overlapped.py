"""The overlapped loop: while the device runs step n, the host plans and launches step n + 1, then commits n.

The same four verbs as the plain loop, in another order:

    plain        schedule n   launch n   wait n       commit n
    overlapped   schedule n+1 launch n+1 wait n       commit n

When step n + 1 is planned, the tokens of step n are not known yet: they are pending, and the device feeds them to itself. A sequence
that ends in step n has one wasted row in step n + 1, whose token `commit` skips.

From: requests that the engine has given to the scheduler. To: the engine turns the sequences that moved into outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from minfer.types import Sequence


def loop(scheduler, executor) -> Iterator[list[Sequence]]:
    """One step an iteration, until no work is left and nothing is in flight. Yields the sequences that got a token.

    Raises:
        RuntimeError: there is work, nothing is in flight, and the scheduler plans none of it.
    """
    in_flight = None
    while scheduler.has_work() or in_flight:
        plan = scheduler.schedule()
        # ch13 task1: nothing planned and nothing in flight, though there is work: raise a RuntimeError that says so
        if plan is None and in_flight is None:
            raise RuntimeError(
                f"{type(scheduler).__name__}.schedule() returned no plan although sequences are alive and no step is in flight; "
                "a scheduler must plan at least one of them"
            )
        # end of ch13 task1
        # ch13 task2: launch this step if there is one, then wait for the step in flight and commit it; yield who moved
        launched = (plan, executor.launch(plan)) if plan is not None else None
        moved = []
        if in_flight is not None:
            earlier, pending = in_flight
            moved = scheduler.commit(earlier, pending.wait())
        in_flight = launched
        yield moved
        # end of ch13 task2
