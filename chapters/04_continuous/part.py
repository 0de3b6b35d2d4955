# Chapter 4, Continuous batching. Edit this file: it is your ContinuousScheduler for the slot scheduler.
#
#   task1, 3 points: Newcomers
#   task2, 4 points: What runs goes on
#   task3, 3 points: When room is scarce
#
#   minfer check ch04              what is right so far, and your points
#   minfer check ch04 -k task1     one task only
#   minfer hint ch04 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 8da13952.

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
            raise NotImplementedError("ch04 task2: what runs goes on, if it is ready and room can be made for its new tokens")
        if self.num_preemptions > preemptions:
            # ch04 task3: somebody had to give way in this step; what does that mean for newcomers?
            raise NotImplementedError("ch04 task3: somebody had to give way in this step; what does that mean for newcomers?")
        # ch04 task1: let newcomers in, whole prompts, as far as the budget goes
        raise NotImplementedError("ch04 task1: let newcomers in, whole prompts, as far as the budget goes")
        return self._plan(work)
