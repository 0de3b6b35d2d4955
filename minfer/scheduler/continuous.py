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
            if self._ready(seq) and self._make_room(seq, seq.num_new):
                work.append(self._work(seq, seq.num_new))
        budget = self.config.max_num_batched_tokens - len(work)
        max_new = math.inf  # the first newcomer may be longer than the budget, or it would never run
        while self.num_preemptions == preemptions and (seq := self._admit(max_new)) is not None:
            budget -= seq.num_new
            max_new = budget
            work.append(self._work(seq, seq.num_new))
        return self._plan(work)
