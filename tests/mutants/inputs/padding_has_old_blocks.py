"""Fault: where a message has no new block, it writes one of an earlier message into the padding row's table."""

from __future__ import annotations

from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def build(self, plan):
        before = self.fixed.columns[self.fixed.turn ^ 1]["new_blocks"].copy()
        batch = super().build(plan)
        column = self.message.columns[self.message.turn]
        column["new_blocks"][column["new_places"] == self.message.nowhere] = before.max()
        return batch
