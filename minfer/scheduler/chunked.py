"""Chunked prefill: a step computes at most max_num_batched_tokens tokens; long prompts are cut to fit beside the decodes.

No decode waits behind a long prompt. Source: Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM Inference with
Sarathi-Serve", 2024.
"""

from __future__ import annotations

import math

from minfer.scheduler.base import BaseScheduler
from minfer.types import Plan


class ChunkedScheduler(BaseScheduler):
    """Decodes first, then prompts already begun, then newcomers, all from one budget of tokens."""

    def schedule(self) -> Plan | None:
        preemptions = self.num_preemptions
        budget = self.config.max_num_batched_tokens
        work = []
        decodes, chunks = [], []
        for seq in self.running:
            # ch05 task2: who comes first?
            (chunks if seq.num_new > 1 else decodes).append(seq)
            # end of ch05 task2
        for seq in (*decodes, *chunks):
            # ch05 task2: it goes on, as far as the budget goes
            if budget and self._ready(seq) and self._make_room(seq, num_new := min(seq.num_new, budget)):
                work.append(self._work(seq, num_new))
                budget -= num_new
            # end of ch05 task2
        if self.num_preemptions > preemptions:
            return self._plan(work)
        # ch05 task1: let newcomers in, the last one with as much of its prompt as is left of the budget
        while budget and (seq := self._admit(max_new=math.inf)) is not None:
            num_new = min(seq.num_new, budget)
            work.append(self._work(seq, num_new))
            budget -= num_new
        # end of ch05 task1
        return self._plan(work)
