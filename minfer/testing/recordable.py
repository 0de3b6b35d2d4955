"""What a runner needs around it to record a step on the tape of `tape.py`: inputs, a model and a sampler that never ask the host.

From: `suites/runner.py` builds a runner with them. To: the runner under test.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from unittest import mock

import torch

from minfer.inputs.static_batch import StaticBatch, no_batch
from minfer.model import Decoder
from minfer.parts import KV
from minfer.sample.torch import sample
from minfer.testing.decoding import TORCH_FUNCTIONS
from minfer.testing.tiny import tiny_decoder
from minfer.types import Batch, Bucket


class WatchedInputs:
    """Inputs that hide the tokens until `expand`, and remember what was fed back; in tensors, so that it can be recorded."""

    def __init__(self, config, block_size: int):
        self.hidden = torch.zeros(config.max_num_batched_tokens, dtype=torch.int64)
        self.times_fed = torch.zeros((), dtype=torch.int64)
        self.fed = torch.zeros(config.max_num_batched_tokens, dtype=torch.int64)
        self.static = StaticBatch(config, block_size, config.max_num_seqs, config.max_num_batched_tokens)

    def hide(self, batch: Batch) -> Batch:
        """What the host would send if the tokens lay on the device."""
        self.hidden.zero_()[: len(batch.token_ids)] = batch.token_ids
        self.times_fed.zero_()
        return replace(batch, token_ids=torch.zeros_like(batch.token_ids))

    def send(self, batch: Batch | None, bucket: Bucket | None = None) -> Batch:
        batch = no_batch() if batch is None else batch
        return batch if bucket is None else self.static.fill(batch, bucket)

    def expand(self, batch: Batch) -> Batch:
        return replace(batch, token_ids=self.hidden[: len(batch.token_ids)].clone())

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        self.times_fed += 1
        self.fed[: len(next_ids)] = next_ids


@functools.cache
def recordable_decoder() -> Decoder:
    """The same model, with an attention that asks the host for nothing: every token looks at every place of its row's block table."""

    def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
        token = torch.arange(len(q))
        owner = (token[:, None] >= batch.query_start[1:]).sum(1).clamp_max(batch.num_seqs - 1)
        tables = batch.block_tables.long()[owner]
        group = q.shape[1] // kv[0].shape[2]
        k, v = (cache[tables].flatten(1, 2).nan_to_num().repeat_interleave(group, 2) for cache in kv)  # [T, L, Hq, D]
        scores = torch.einsum("thd,tlhd->thl", q, k) * scale
        hidden = torch.arange(k.shape[1]) > batch.positions[:, None]
        return torch.einsum("thl,tlhd->thd", scores.masked_fill(hidden[:, None], float("-inf")).softmax(-1), v)

    return tiny_decoder(TORCH_FUNCTIONS._replace(attention=attention))


def recordable_sample(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """`sample` as it works on a GPU: it draws noise for all rows, since to find out which need some would take the host."""
    with mock.patch("minfer.sample.torch._random_rows", return_value=slice(None)):
        return sample(logits, batch)
