"""Fault: every step is sampled as the first one was: greedily, or not."""

from __future__ import annotations

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    first = None

    def _step(self, batch, mode):
        if mode.samples:
            self.first = self.first or mode
            mode = self.first
        return super()._step(batch, mode)
