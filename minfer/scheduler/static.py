"""Static batching: a batch is formed once and runs until its last sequence has ended; only then is the next one formed.

Sequences that end early leave their places empty, and newcomers wait for the longest. All prompts of a batch are computed in one
step, however many tokens that is.
"""

from __future__ import annotations

import math

from minfer.scheduler.base import BaseScheduler
from minfer.types import Plan


class StaticScheduler(BaseScheduler):
    """Admits only when nothing runs."""

    def schedule(self) -> Plan | None:
        if not self.running:
            while self._admit(max_new=math.inf) is not None:
                pass
        work = []
        for seq in self.running[:]:
            if self._ready(seq) and self._make_room(seq, seq.num_new):
                work.append(self._work(seq, seq.num_new))
        return self._plan(work)
