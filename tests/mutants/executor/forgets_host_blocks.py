"""Fault: nothing is brought back from the host."""

from __future__ import annotations

from dataclasses import replace

from minfer.executor.local import LocalExecutor


class Mutant(LocalExecutor):
    def launch(self, plan):
        return super().launch(replace(plan, copies=[copy for copy in plan.copies if copy.kind != "in"]))
