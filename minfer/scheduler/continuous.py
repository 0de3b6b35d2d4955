"""Continuous batching: every step, finished sequences leave and waiting ones take their places.

Source: Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative Models", 2022 (iteration-level scheduling).
"""

from __future__ import annotations

import math

from minfer.scheduler.base import BaseScheduler
from minfer.types import Plan


class ContinuousScheduler(BaseScheduler):
    """Prompts are computed whole: a step takes as many as max_num_batched_tokens allows, and always at least one that fits."""

    def schedule(self) -> Plan | None:
        preemptions = self.num_preemptions
        work = []
        for seq in self.running[:]:
            # ch04 task2: what runs goes on, if it is ready and room can be made for its new tokens
            if self._ready(seq) and self._make_room(seq, seq.num_new):
                work.append(self._work(seq, seq.num_new))
            # end of ch04 task2
        if self.num_preemptions > preemptions:
            # ch04 task3: somebody had to give way in this step; what does that mean for newcomers?
            return self._plan(work)
            # end of ch04 task3
        # ch04 task1: let newcomers in, whole prompts, as far as the budget goes
        budget = self.config.max_num_batched_tokens - len(work)
        max_new = math.inf  # the first newcomer may be longer than the budget, or it would never run
        while (seq := self._admit(max_new)) is not None:
            budget -= seq.num_new
            max_new = budget
            work.append(self._work(seq, seq.num_new))
        # end of ch04 task1
        return self._plan(work)
