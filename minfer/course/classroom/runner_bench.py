"""What a submitted runner is put between: the tiny decoder, a cache, and inputs that tell what was fed back.

From: `serving.py`. To: the runner; what it did to the cache and fed back goes to the grader, which compares.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from minfer.inputs.static_batch import StaticBatch, no_batch
from minfer.parts import KV
from minfer.sample.torch import sample
from minfer.testing.tiny import CONFIG, tiny_decoder
from minfer.types import Batch, Bucket


class Inputs:
    """Tokens come in with `expand` only, as they do where they lie on the device."""

    def __init__(self, config: SimpleNamespace):
        self.hidden = torch.empty(0, dtype=torch.int64)
        self.fed_back: list[list[int]] = []
        self.static = StaticBatch(config, config.block_size, config.max_num_seqs, config.max_num_batched_tokens)

    def send(self, batch: Batch | None, bucket: Bucket | None = None) -> Batch:
        batch = no_batch() if batch is None else batch
        return batch if bucket is None else self.static.fill(batch, bucket)

    def expand(self, batch: Batch) -> Batch:
        ids = batch.token_ids.clone()
        ids[: len(self.hidden)] = self.hidden
        return replace(batch, token_ids=ids)

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        self.fed_back.append(next_ids.tolist())


class Bench:
    """The runner with all that it needs. The cache stays where it is; the grader's is copied in before a step."""

    def __init__(self, part: Any, config: SimpleNamespace, kv: list[KV]):
        self.kv = [(keys.clone(), values.clone()) for keys, values in kv]
        self.inputs = Inputs(config)
        self.runner = part(tiny_decoder(), self.kv, self.inputs, sample, config)
        self.runner.warm_up()

    def run(self, batch: Batch, hidden: torch.Tensor, kv: list[KV]) -> list:
        """[the result, the tokens fed back, the cache]."""
        for mine, theirs in zip(self.kv, kv, strict=True):
            for cache, wanted in zip(mine, theirs, strict=True):
                cache.copy_(wanted)
        self.inputs.hidden, self.inputs.fed_back = hidden, []
        result = self.runner.run(batch)
        return [result, self.inputs.fed_back, [list(layer) for layer in self.kv]]


def make_runner(part: Any, config: SimpleNamespace, kv: list[KV]) -> Bench:
    """config: the sizes, as numbers."""
    config.device, config.dtype, config.model = torch.device("cpu"), torch.float32, CONFIG
    return Bench(part, config, kv)
