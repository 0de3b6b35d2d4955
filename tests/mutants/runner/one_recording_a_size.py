"""Fault: a step is recorded once for each size, so that it is replayed with the way of sampling that came first."""

from __future__ import annotations

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def _replay(self, batch, bucket, mode):
        if self.on_gpu:
            for known_bucket, known_mode in list(self.recorded):
                if known_bucket == bucket and known_mode.samples and mode.samples:
                    mode = known_mode
        return super()._replay(batch, bucket, mode)
