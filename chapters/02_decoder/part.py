# Chapter 2, Our own forward pass. Edit this file: it is your
#   add_rms_norm for the slot norm
#   write_kv for the slot write_kv
#   attention for the slot attention
#
#   task1, 2 points: Add and normalise
#   task2, 2 points: Turn, and put away
#   task3, 3 points: Attention of a single token
#   task4, 3 points: Attention of a whole prompt
#
#   minfer check ch02              what is right so far, and your points
#   minfer check ch02 -k task1     one task only
#   minfer hint ch02 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 1538e63c.

"""Slot `norm`, plain PyTorch: residual addition and RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467).

From: the embedding, or the o and down projections of `model.py`. To: the next projection, and the residual to the next norm.

Slot `write_kv`, plain PyTorch: q/k norm, rotary embedding (Su et al. 2021, arXiv:2104.09864) and the write into the cache.

From: the fused q|k|v projection of `model.py`. To: K and V into the cache's pages, the rotated q to `attention`.

Slot `attention`, plain PyTorch: each new token attends over its own sequence's pages.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.

Decode rows are gathered and computed in one batch, chunks one by one. Only slots that hold a token of the row's own context are
read, so whatever lies in the rest of a page does not matter. Shapes as in `minfer/parts.py`; L is a number of keys.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from minfer.attention.torch import find_rows, read
from minfer.parts import KV
from minfer.types import Batch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension; any shape.

    float32 inside, rounded to x's dtype before the weight is applied, as transformers does.
    """
    # ch02 task1: the formula, with the mean in float32
    raise NotImplementedError("ch02 task1: the formula, with the mean in float32")


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """r = x + residual (x where residual is None) → (rms_norm(r), r), all [T, H]. Writes r into x."""
    # ch02 task1: add first, then normalise; both come back
    raise NotImplementedError("ch02 task1: add first, then normalise; both come back")


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the pairs (x[i], x[i + D / 2]) by their angles: x [T, heads, D], cos and sin [T, 1, D / 2] → [T, heads, D]."""
    # ch02 task2: turn the first half against the second
    raise NotImplementedError("ch02 task2: turn the first half against the second")


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
    raise NotImplementedError("ch02 task2: write each token where its slot says, whatever the strides of the cache")


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. A row whose context is 0 gives zeros."""
    parts = []
    first = batch.num_decode
    if first:
        tables, context_lens, contexts = batch.block_tables[:first], batch.context_lens[:first], batch.contexts[:first]
        parts.append(decode(q[:first], kv, tables, context_lens, contexts, scale, window))
    for row in range(batch.num_decode, batch.num_seqs):
        last = first + batch.query_lens[row]
        if last > first:
            parts.append(prefill(q[first:last], kv, batch.block_tables[row], batch.contexts[row], scale, window))
        first = last
    if first < len(q):
        parts.append(torch.zeros_like(q[first:]))  # padding tokens
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def decode(
    q: torch.Tensor,
    kv: KV,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    contexts: list[int],
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """One query a row, q [B, Hq, D], over its context (`contexts` are context_lens [B], on the host) → [B, Hq, D].

    The contexts are aligned at their ends, so that a window is nothing but fewer keys. Those shorter than L fill up with their
    first token, which is masked there. Products and roundings follow transformers' eager attention.
    """
    # ch02 task3: read the keys, score them, mask what is no part of the context, softmax, weigh the values
    raise NotImplementedError("ch02 task3: read the keys, score them, mask what is no part of the context, softmax, weigh the values")


def prefill(q: torch.Tensor, kv: KV, block_table: torch.Tensor, context: int, scale: float, window: int | None) -> torch.Tensor:
    """The last tokens of one sequence, q [T, Hq, D], over its `context` tokens so far → [T, Hq, D]."""
    # ch02 task4: the same for many queries of one sequence; each sees one key more than the one before it
    raise NotImplementedError("ch02 task4: the same for many queries of one sequence; each sees one key more than the one before it")
