"""Fault: a step's ids are the static buffer that the next step writes to."""

from __future__ import annotations

import torch

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ids = torch.zeros(64, dtype=torch.int64)

    def run(self, batch):
        result = super().run(batch)
        ids = self.ids[: len(result.next_ids)]
        ids.copy_(result.next_ids)
        return result._replace(next_ids=ids)
