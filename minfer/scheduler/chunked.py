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
            (chunks if seq.num_new > 1 else decodes).append(seq)
        for seq in (*decodes, *chunks):
            if budget and self._ready(seq) and self._make_room(seq, num_new := min(seq.num_new, budget)):
                work.append(self._work(seq, num_new))
                budget -= num_new
        while budget and self.num_preemptions == preemptions and (seq := self._admit(max_new=math.inf)) is not None:
            num_new = min(seq.num_new, budget)
            work.append(self._work(seq, num_new))
            budget -= num_new
        return self._plan(work)
