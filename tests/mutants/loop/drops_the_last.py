"""Fault: it ends as soon as nothing is left to schedule, with the last step uncommitted."""

from __future__ import annotations


def mutant(scheduler, executor):
    plan = scheduler.schedule()
    while plan is not None:
        pending = executor.launch(plan)
        following = None
        if len(scheduler.live) > 1 or plan.step % 2:
            moved = scheduler.commit(plan, pending.wait())
            yield moved
        following = scheduler.schedule() if scheduler.has_work() else None
        plan = following
