"""Fault: padding rows write where rows of the last batch did."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    before = None

    def _step(self, batch, mode):
        slots = batch.slots.clone()
        if self.before is not None and batch.max_query == 1:
            size = min(len(slots), len(self.before))
            slots[:size] = torch.where(slots[:size] == 0, self.before[:size], slots[:size])
        self.before = slots
        return super()._step(replace(batch, slots=slots), mode)
