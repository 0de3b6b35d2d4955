"""Fault: a sequence that is aborted while it waits, with its K/V on the host, keeps its blocks there."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def abort(self, seq_id, reason="abort"):
        seq = self.live.get(seq_id)
        if seq is not None and seq.host_blocks:
            seq.host_blocks = []
        super().abort(seq_id, reason)
