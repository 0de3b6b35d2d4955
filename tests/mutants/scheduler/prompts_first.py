"""Fault: chunks come before decodes in a plan."""

from __future__ import annotations

from dataclasses import replace

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def _plan(self, work):
        plan = super()._plan(work)
        return plan and replace(plan, work=plan.work[::-1])
