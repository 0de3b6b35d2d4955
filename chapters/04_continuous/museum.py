"""The bug museum of chapter 4: a scheduler that works for months, until one user sends one request. Which one?

Use it like your own part: minfer check scheduler --part chapters/04_continuous/museum.py:ContinuousScheduler
"""

from __future__ import annotations

from minfer.scheduler.base import BaseScheduler
from minfer.types import Plan


class ContinuousScheduler(BaseScheduler):
    """Prompts are computed whole, as many in a step as max_num_batched_tokens allows."""

    def schedule(self) -> Plan | None:
        preemptions = self.num_preemptions
        work = []
        for seq in self.running[:]:
            if self._ready(seq) and self._make_room(seq, seq.num_new):
                work.append(self._work(seq, seq.num_new))
        if self.num_preemptions > preemptions:
            return self._plan(work)
        budget = self.config.max_num_batched_tokens - len(work)
        while (seq := self._admit(budget)) is not None:
            budget -= seq.num_new
            work.append(self._work(seq, seq.num_new))
        return self._plan(work)
