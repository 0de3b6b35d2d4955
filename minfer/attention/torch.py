"""Slot `attention`, plain PyTorch: each new token attends over its own sequence's pages.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.

Decode rows are gathered and computed in one batch, chunks one by one. Only slots that hold a token of the row's own context are
read, so whatever lies in the rest of a page does not matter. Shapes as in `minfer/parts.py`; L is a number of keys.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from minfer.parts import KV
from minfer.types import Batch


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
    (B, Hq, D), Hkv = q.shape, kv[0].shape[2]
    num_keys = max(1, min(max(contexts), window or max(contexts)))
    ragged = min(contexts) < num_keys
    positions = context_lens.long()[:, None] + torch.arange(-num_keys, 0, device=q.device)  # [B, L]
    if ragged:
        outside = (positions < 0)[:, None]
        positions.clamp_min_(0)
    rows = find_rows(positions, block_tables, kv[0])
    keys = read(kv[0], rows).view(B * Hkv, num_keys, D)
    scores = torch.bmm(q.reshape(B * Hkv, -1, D), keys.transpose(1, 2)).mul_(scale).view(B, Hq, -1)
    del keys  # its memory serves for the values: the allocator of a CPU is slow with large blocks
    if ragged:
        scores.masked_fill_(outside, float("-inf"))
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(q.dtype).view(B * Hkv, -1, num_keys)
    out = torch.bmm(weights, read(kv[1], rows).view(B * Hkv, num_keys, D)).view(B, Hq, D)
    return out.masked_fill_((context_lens == 0)[:, None, None], 0.0) if 0 in contexts else out
    # end of ch02 task3


def prefill(q: torch.Tensor, kv: KV, block_table: torch.Tensor, context: int, scale: float, window: int | None) -> torch.Tensor:
    """The last tokens of one sequence, q [T, Hq, D], over its `context` tokens so far → [T, Hq, D]."""
    # ch02 task4: the same for many queries of one sequence; each sees one key more than the one before it
    (T, _, D), Hkv = q.shape, kv[0].shape[2]
    begin = max(0, context - T - window + 1) if window else 0  # the first key that the first query sees
    positions = torch.arange(begin, context, device=q.device)
    rows = find_rows(positions[None], block_table[None], kv[0])
    keys, values = (read(cache, rows).view(1, Hkv, -1, D) for cache in kv)
    mask = None
    if context > T or (window and window < T):  # else the plain causal triangle
        ago = positions[-T:, None] - positions  # [T, L]
        mask = (ago >= 0) & (ago < (window or context))
    return F.scaled_dot_product_attention(
        q.transpose(0, 1)[None], keys, values, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=True
    )[0].transpose(0, 1)
    # end of ch02 task4


def find_rows(positions: torch.Tensor, block_tables: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
    """Where the cache keeps the heads of tokens: positions [B, L] int64, tables [B, M] → [B * Hkv * L] int64, head by head.

    A row is one head of one token: row (block * block_size + offset) * Hkv + head of a cache [N, block_size, Hkv, D].
    """
    _, block_size, Hkv, _ = cache.shape
    blocks = block_tables.gather(1, positions // block_size).long()  # 64 bits: rows of a large cache pass 2³¹
    slots = blocks * block_size + positions % block_size
    return (slots[:, None] * Hkv + torch.arange(Hkv, device=cache.device)[:, None]).flatten()


def read(cache: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Copy these rows (see `find_rows`) out of a cache → [number of rows, D]."""
    _, block_size, Hkv, D = cache.shape
    if cache.is_contiguous():
        return cache.view(-1, D).index_select(0, rows)
    return cache[rows // (Hkv * block_size), rows // Hkv % block_size, rows % Hkv]  # any strides, but slower
