"""Fault: every sequence has the whole budget of a step for itself."""

from __future__ import annotations

import math

from minfer.scheduler.base import BaseScheduler


class Mutant(BaseScheduler):
    def schedule(self):
        budget, work, preemptions = self.config.max_num_batched_tokens, [], self.num_preemptions
        for seq in self.running[:]:
            num_new = min(seq.num_new, budget)
            if self._ready(seq) and self._make_room(seq, num_new):
                work.append(self._work(seq, num_new))
        while self.num_preemptions == preemptions and (seq := self._admit(math.inf)) is not None:
            work.append(self._work(seq, min(seq.num_new, budget)))
        return self._plan(work)
