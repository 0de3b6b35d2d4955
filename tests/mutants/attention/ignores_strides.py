"""Fault: the cache is taken to be contiguous, whatever its strides are."""

from __future__ import annotations

import torch

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    kv = tuple(cache.as_strided(cache.shape, torch.empty(cache.shape, device="meta").stride()) for cache in kv)
    return attention(q, kv, batch, scale, window)
