"""Fault: a row that was freed keeps its old blocks, and the new ones follow them."""

from __future__ import annotations

from dataclasses import replace

from minfer.inputs.host import HostInputs


class Mutant(HostInputs):
    def build(self, plan):
        return super().build(replace(plan, freed_rows=[]))
