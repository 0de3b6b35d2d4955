"""Fault: a sequence that gave way and comes back to its old row is taken for one that never left: its old blocks stay."""

from __future__ import annotations

from dataclasses import replace

from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def build(self, plan):
        ids = {work.row: work.seq_id for work in plan.work}
        freed = [row for row in plan.freed_rows if self.rows.seq_ids[row] != ids.get(row)]
        return super().build(replace(plan, freed_rows=freed))
