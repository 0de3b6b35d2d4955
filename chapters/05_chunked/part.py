# Chapter 5, Chunked prefill. Edit this file: it is your ChunkedScheduler for the slot scheduler.
#
#   task1, 4 points: The first piece
#   task2, 6 points: Decodes first, then the prompts already begun
#
#   minfer check ch05              what is right so far, and your points
#   minfer check ch05 -k task1     one task only
#   minfer hint ch05 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 04f26825.

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
            raise NotImplementedError("ch05 task2: who comes first?")
        for seq in (*decodes, *chunks):
            # ch05 task2: it goes on, as far as the budget goes
            raise NotImplementedError("ch05 task2: it goes on, as far as the budget goes")
        if self.num_preemptions > preemptions:
            return self._plan(work)
        # ch05 task1: let newcomers in, the last one with as much of its prompt as is left of the budget
        raise NotImplementedError("ch05 task1: let newcomers in, the last one with as much of its prompt as is left of the budget")
        return self._plan(work)
