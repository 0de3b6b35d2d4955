"""Fault: a scheduler that plans nothing is asked again for ever."""

from __future__ import annotations


def mutant(scheduler, executor):
    while scheduler.has_work():
        plan = scheduler.schedule()
        if plan is not None:
            yield scheduler.commit(plan, executor.launch(plan).wait())
