"""Fault: of a work's tokens the unknown one is put in front of the known ones."""

from __future__ import annotations

import numpy as np

from minfer.inputs.message import UNKNOWN
from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def build(self, plan):
        batch = super().build(plan)
        ids = self.message.columns[self.message.turn]["tokens"]["id"]
        end = 0
        for work in plan.work:
            begin, end = end, end + work.num_new
            if ids[end - 1] == UNKNOWN:
                ids[begin:end] = np.roll(ids[begin:end], 1)
        return batch
