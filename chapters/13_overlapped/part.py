# Chapter 13, The overlapped loop. Edit this file: it is your loop for the slot loop.
#
#   task1, 2 points: Never go round for ever
#   task2, 8 points: Launch first, then wait
#
#   minfer check ch13              what is right so far, and your points
#   minfer check ch13 -k task1     one task only
#   minfer hint ch13 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 872fcb60.

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
        raise NotImplementedError(
            "ch13 task1: nothing planned and nothing in flight, though there is work: raise a RuntimeError that says so"
        )
        # ch13 task2: launch this step if there is one, then wait for the step in flight and commit it; yield who moved
        raise NotImplementedError(
            "ch13 task2: launch this step if there is one, then wait for the step in flight and commit it; yield who moved"
        )
