"""What the tests of tensor parallelism let ranks do: functions for `ask`, and parts that fail or hang in one rank only."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist

from minfer.sample.torch import sample

FAILS, HANGS = ({"sample": f"rank_parts:{name}"} for name in ("raises_in_rank_1", "sleeps_in_rank_1"))


def poison(executor) -> None:
    """Fill the K/V cache with NaN, so that reading what was never written shows."""
    executor.cache.device_pool.fill_(torch.nan)
    executor.cache.host_pool.fill_(torch.nan)


def shape(executor) -> dict:
    """What this rank holds."""
    attention = executor.model.layers[0].self_attn
    return {
        "qkv": list(attention.qkv_proj.weight.shape),
        "cache": list(executor.cache.device_pool.shape),
        "head": list(executor.model.lm_head.weight.shape),
        "threads": torch.get_num_threads(),
    }


def process(executor) -> int:
    return os.getpid()


def raises_in_rank_1(logits: torch.Tensor, batch) -> torch.Tensor:
    if dist.get_rank() == 1 and max(batch.contexts) > 8:
        raise ZeroDivisionError("rank 1 cannot go on")
    return sample(logits, batch)


def sleeps_in_rank_1(logits: torch.Tensor, batch) -> torch.Tensor:
    if dist.get_rank() == 1 and max(batch.contexts) > 8:
        time.sleep(3600)
    return sample(logits, batch)
