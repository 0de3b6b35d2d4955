"""Fault: padding rows write to the first slot of block 1, which belongs to a sequence."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def _step(self, batch, mode):
        slots = torch.where(batch.slots == 0, self.kv[0][0].shape[1], batch.slots)
        return super()._step(replace(batch, slots=slots), mode)
