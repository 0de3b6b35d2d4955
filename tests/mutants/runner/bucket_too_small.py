"""Fault: a batch of exactly one row more than a bucket loses that row's place: it gets its neighbour's token."""

from __future__ import annotations

import torch

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def run(self, batch):
        result = super().run(batch)
        if batch.num_seqs - 1 in self.buckets and batch.num_decode == batch.num_seqs:
            result = result._replace(next_ids=torch.cat((result.next_ids[:-1], result.next_ids[-2:-1])))
        return result
