"""Fault: blocks are moved after the step that needs them."""

from __future__ import annotations

from dataclasses import replace

from minfer.executor.local import LocalExecutor


class Mutant(LocalExecutor):
    def launch(self, plan):
        pending = super().launch(replace(plan, copies=[]))
        self.cache.copy(plan.copies)
        return pending
