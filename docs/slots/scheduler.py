"""A scheduler that lets one newcomer in per step, so that prompts never pile up in one step."""

import math

from minfer.scheduler.base import BaseScheduler


class OneAtATime(BaseScheduler):
    def schedule(self):
        before = self.num_preemptions
        running = list(self.running)
        work = [self._work(s, s.num_new) for s in running if self._ready(s) and self._make_room(s, s.num_new)]
        if self.num_preemptions == before and (new := self._admit(math.inf)) is not None:
            work.append(self._work(new, new.num_new))
        return self._plan(work)
