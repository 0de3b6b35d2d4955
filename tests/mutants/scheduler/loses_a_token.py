"""Fault: a sequence that gave way while its token was on the way never gets that token."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def _append(self, seq, sampled, i):
        super()._append(seq, sampled, i)
        if seq.num_preemptions and seq.num_output == 2 and not seq.finished:
            seq.token_ids.pop()
