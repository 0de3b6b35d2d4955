"""Fault: a step is committed once the next one is launched: so the last one never is."""

from __future__ import annotations


def mutant(scheduler, executor):
    before = None
    while (plan := scheduler.schedule()) is not None:
        pending = executor.launch(plan)
        if before is not None:
            yield scheduler.commit(before[0], before[1].wait())
        before = plan, pending
