"""A loop that counts its steps and says so at the end."""

import logging


def loop(scheduler, executor):
    steps = 0
    while scheduler.has_work():
        plan = scheduler.schedule()
        if plan is None:
            raise RuntimeError("nothing was planned, and nothing is in flight: this would wait for ever")
        yield scheduler.commit(plan, executor.launch(plan).wait())
        steps += 1
    logging.getLogger(__name__).info("%d steps", steps)
