"""The bug museum of chapter 5: it streams the right text on every laptop, and now and then a wrong word under heavy load.

Use it like your own part: minfer check scheduler --part chapters/05_chunked/museum.py:ChunkedScheduler
"""

from __future__ import annotations

import math

from minfer.scheduler.base import BaseScheduler
from minfer.types import Plan, Sequence, Work


class ChunkedScheduler(BaseScheduler):
    """Decodes first, then prompts already begun, then newcomers, all from one budget of tokens."""

    def schedule(self) -> Plan | None:
        preemptions = self.num_preemptions
        budget = self.config.max_num_batched_tokens
        work = []
        decodes, chunks = [], []
        for seq in self.running:
            (chunks if seq.num_new > 1 else decodes).append(seq)
        for seq in (*decodes, *chunks):
            if budget and self._ready(seq) and self._make_room(seq, num_new := min(seq.num_new, budget)):
                work.append(self._work(seq, num_new))
                budget -= num_new
        if self.num_preemptions > preemptions:
            return self._plan(work)
        while budget and (seq := self._admit(max_new=math.inf)) is not None:
            num_new = min(seq.num_new, budget)
            work.append(self._work(seq, num_new))
            budget -= num_new
        return self._plan(work)

    def _work(self, seq: Sequence, num_new: int) -> Work:
        """The next num_new tokens; whoever has the whole prompt in the cache gets a token."""
        work = super()._work(seq, num_new)
        if seq.num_computed >= seq.num_prompt and not work.samples:
            seq.num_pending += 1
            work = work._replace(samples=True)
        return work
