"""Fault: padding rows write to the first slot of block 1, which belongs to a sequence."""

from __future__ import annotations

from minfer.runner.cuda_graph import CudaGraphRunner


class Mutant(CudaGraphRunner):
    def _step(self, bucket, mode):
        padding = self.static.buffers["slots"][:bucket]
        padding[padding == 0] = self.kv[0][0].shape[1]
        return super()._step(bucket, mode)
