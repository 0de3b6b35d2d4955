"""Slot `write_kv`, plain PyTorch: q/k norm, rotary embedding (Su et al. 2021, arXiv:2104.09864) and the write into the cache.

From: the fused q|k|v projection of `model.py`. To: K and V into the cache's pages, the rotated q to `attention`.
"""

from __future__ import annotations

import torch

from minfer.norm.torch import rms_norm
from minfer.parts import KV


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (x[i], x[i + D / 2]) by their angles: x [T, heads, D], cos and sin [T, 1, D / 2] → [T, heads, D]."""
    # ch02 task2: turn the first half against the second
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    # end of ch02 task2


def write_kv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    kv: KV,
    slots: torch.Tensor,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """See `minfer.parts.WriteKV`. Angles are rounded to q's dtype before they are applied, as transformers does."""
    if q_norm is not None and k_norm is not None:
        q, k = rms_norm(q, q_norm, eps), rms_norm(k, k_norm, eps)
    qk = rotate(torch.cat((q, k), dim=1), cos.to(q.dtype)[:, None], sin.to(q.dtype)[:, None])  # both at once
    q, k = qk.split((q.shape[1], k.shape[1]), dim=1)
    store(kv[0], slots, k)
    store(kv[1], slots, v)
    return q


def store(cache: torch.Tensor, slots: torch.Tensor, x: torch.Tensor) -> None:
    """Put x [T, Hkv, D] into the slots [T] of a cache [N, block_size, Hkv, D]."""
    # ch02 task2: write each token where its slot says, whatever the strides of the cache
    _, block_size, Hkv, D = cache.shape
    if cache.is_contiguous():
        cache.view(-1, Hkv, D).index_copy_(0, slots, x)
    else:
        cache[slots // block_size, slots % block_size] = x  # any strides, but slower
    # end of ch02 task2
