"""CUDA graphs for steps with prompt chunks too: such a step is filled up with padding tokens as well as padding rows.

A chunk's arrival would otherwise cost every decode beside it a step that the host launches kernel by kernel. A recording fixes its
number of tokens and rows only. Which rows decode, and which tokens belong to which row, the attention part reads from the device.
Steps of more tokens than the largest size run eagerly: their kernels take longer than their launches.

From: the inputs' Batch. To: the executor's Pending, as tensors still on the device.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.runner.cuda_graph import CudaGraphRunner, Mode
from minfer.types import Batch, Bucket

TOKENS = (64, 128, 256, 384, 512, 768, 1024, 1536, 2048)
FEW_ROWS = 8


class MixedGraphRunner(CudaGraphRunner):
    """Decode steps as CudaGraphRunner does, and mixed ones up to TOKENS[-1] tokens by replay as well."""

    def __init__(self, model, kv, inputs, sample, config):
        super().__init__(model, kv, inputs, sample, config)
        self.token_sizes = [size for size in TOKENS if size <= config.max_num_batched_tokens] or [config.max_num_batched_tokens]
        self.row_sizes = sorted({min(FEW_ROWS, config.max_num_seqs), config.max_num_seqs})

    def all_buckets(self) -> list[Bucket]:
        mixed = [Bucket(rows, tokens) for tokens in self.token_sizes[::-1] for rows in self.row_sizes[::-1]]
        return mixed + super().all_buckets()

    def bucket_of(self, batch: Batch) -> Bucket | None:
        if batch.num_decode == batch.num_seqs or batch.score_at is not None:
            return super().bucket_of(batch)
        count = len(batch.token_ids)
        if count > self.token_sizes[-1]:
            return None
        rows = next(size for size in self.row_sizes if size >= batch.num_seqs)
        return Bucket(rows, next(size for size in self.token_sizes if size >= count))

    def _step(self, batch: Batch, mode: Mode) -> tuple[torch.Tensor, Batch]:
        if batch.recorded and batch.max_query > 1:
            lens = torch.where(batch.query_start.diff() == 1, batch.context_lens, 0)
            batch = replace(batch, decode_lens=lens)
        return super()._step(batch, mode)
