"""Bug museum, chapter 8: a runner with one fault of a kind that engines have had. Find it before you read on.

    minfer check runner --part chapters/08_cuda_graphs/museum.py:CudaGraphRunner
"""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.runner import cuda_graph
from minfer.runner.cuda_graph import Mode
from minfer.types import Batch


class CudaGraphRunner(cuda_graph.CudaGraphRunner):
    """Padding rows repeat the first row, whose addresses are surely valid."""

    def _step(self, batch: Batch, mode: Mode) -> tuple[torch.Tensor, Batch]:
        is_padding = batch.context_lens == 0
        slots = torch.where(is_padding, batch.slots[0], batch.slots) if batch.max_query == 1 else batch.slots
        return super()._step(replace(batch, slots=slots), mode)
