"""Fault: the host's side says that every row of the step decodes."""

from __future__ import annotations

from dataclasses import replace

from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def build(self, plan):
        return replace(super().build(plan), num_decode=len(plan.work))
