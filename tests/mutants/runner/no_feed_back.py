"""Fault: steps beyond the largest bucket do not tell the inputs what was sampled."""

from __future__ import annotations

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def run(self, batch):
        if batch.num_seqs <= self.buckets[-1]:
            return super().run(batch)
        feed_back, self.inputs.feed_back = self.inputs.feed_back, lambda batch, next_ids: None
        result = super().run(batch)
        self.inputs.feed_back = feed_back
        return result
