"""Fault: padding rows write where rows of the last batch did."""

from __future__ import annotations

from minfer.runner.cuda_graph import CudaGraphRunner
from minfer.runner.static_batch import StaticBatch


class Stale(StaticBatch):
    def fill(self, batch, bucket):
        before = self.buffers["slots"].clone()
        super().fill(batch, bucket)
        rows = batch.num_seqs
        self.buffers["slots"][rows:bucket] = before[rows:bucket]


class Mutant(CudaGraphRunner):
    def __init__(self, model, kv, inputs, sample, config):
        super().__init__(model, kv, inputs, sample, config)
        self.static = Stale(config, kv[0][0].shape[1], self.buckets[-1])
