"""Fault: the newest of those that wait is let in, whatever the policy says."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.waiting.first = lambda: max(self.waiting, key=lambda seq: seq.seq_id, default=None)
