"""Fault: a step in which some row is not sampled yet is replayed too, as if the sampled ones came first."""

from __future__ import annotations

from dataclasses import replace

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def run(self, batch):
        count = len(batch.sample_at)
        if count < batch.num_seqs == batch.num_decode:
            every = replace(batch, sample_at=batch.query_start[1:].long() - 1, num_logprobs=-1)
            result = super().run(every)
            return result._replace(next_ids=result.next_ids[:count])
        return super().run(batch)
