"""Fault: the last but one chunk of a prompt is sampled already."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def _work(self, seq, num_new):
        work = super()._work(seq, num_new)
        early = not work.samples and seq.num_computed == seq.num_tokens - 1
        seq.num_pending += early
        return work._replace(samples=work.samples or early)
