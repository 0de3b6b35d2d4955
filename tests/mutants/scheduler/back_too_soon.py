"""Fault: a sequence that gave way may run again before its pending token has arrived."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler
from minfer.types import Status


class Mutant(ChunkedScheduler):
    def _preempt(self, seq):
        super()._preempt(seq)
        if seq.status is Status.HELD:
            self._leave(seq)
            self._queue(seq)
