"""Fault: the executor is not told of rows that were freed."""

from __future__ import annotations

from dataclasses import replace

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def _plan(self, work):
        plan = super()._plan(work)
        return plan and replace(plan, freed_rows=[])
