"""Fault: it runs two steps ahead, and the executor keeps what two steps have sampled, not three."""

from __future__ import annotations

from collections import deque


def mutant(scheduler, executor):
    flying = deque()
    while scheduler.has_work() or flying:
        plan = scheduler.schedule()
        if plan is None and not flying:
            raise RuntimeError("nothing is planned, and nothing is in flight")
        if plan is not None:
            flying.append((plan, executor.launch(plan)))
        moved = []
        if plan is None or len(flying) > 2:
            done, pending = flying.popleft()
            moved = scheduler.commit(done, pending.wait())
        yield moved
