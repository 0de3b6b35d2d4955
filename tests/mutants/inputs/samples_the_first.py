"""Fault: a chunk is sampled at its first token."""

from __future__ import annotations

from dataclasses import replace

from minfer.inputs.host import HostInputs


class Mutant(HostInputs):
    def build(self, plan):
        batch = super().build(plan)
        rows = [row for row, work in enumerate(plan.work) if work.samples]
        return replace(batch, sample_at=batch.query_start[:-1][rows].long())
