"""Fault: where the scheduler has no plan, it is asked again at once, though only the step in flight can change its mind."""

from __future__ import annotations


def mutant(scheduler, executor):
    in_flight = None
    while scheduler.has_work() or in_flight:
        plan = scheduler.schedule()
        if plan is None:
            if in_flight is None:
                raise RuntimeError("nothing is planned, and nothing is in flight")
            continue
        launched = plan, executor.launch(plan)
        moved = [] if in_flight is None else scheduler.commit(in_flight[0], in_flight[1].wait())
        in_flight = launched
        yield moved
