"""Fault: a sequence that is aborted while it runs keeps its row."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def abort(self, seq_id, reason="abort"):
        rows = list(self._free_rows)
        super().abort(seq_id, reason)
        self._free_rows[:] = rows
