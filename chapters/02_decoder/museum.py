"""Bug museum, chapter 2: an attention with one fault of a kind that engines have had. Find it before you read on.

    minfer check attention --part chapters/02_decoder/museum.py:attention
"""

from __future__ import annotations

import torch

from minfer.attention.torch import find_rows, prefill, read
from minfer.norm import torch as norm
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv import torch as cache


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """minfer's own, and right."""
    return norm.add_rms_norm(x, residual, weight, eps)


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
    """minfer's own, and right."""
    return cache.write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps)


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. A row whose context is 0 gives zeros."""
    out, first = torch.zeros_like(q), batch.num_decode
    if first:
        out[:first] = decode(q[:first], kv, batch.block_tables[:first], batch.context_lens[:first], scale, window)
    for row in range(batch.num_decode, batch.num_seqs):
        last = first + batch.query_lens[row]
        if last > first:
            out[first:last] = prefill(q[first:last], kv, batch.block_tables[row], batch.contexts[row], scale, window)
        first = last
    return out


def decode(
    q: torch.Tensor, kv: KV, block_tables: torch.Tensor, context_lens: torch.Tensor, scale: float, window: int | None
) -> torch.Tensor:
    """One query a row, q [B, Hq, D] → [B, Hq, D]. All rows read as many keys as the longest; what is not theirs is masked."""
    (B, Hq, D), Hkv = q.shape, kv[0].shape[2]
    longest = max(1, int(context_lens.max()))
    positions = torch.arange(longest, device=q.device).expand(B, -1)
    rows = find_rows(positions, block_tables, kv[0])
    keys, values = (read(stored, rows).view(B, Hkv, longest, D).float() for stored in kv)
    scores = q.reshape(B, Hkv, -1, D).float() @ keys.transpose(2, 3) * scale
    ago = context_lens.long()[:, None] - 1 - positions
    hidden = (ago < 0) | (ago >= (window or longest))
    weights = scores.masked_fill(hidden[:, None, None], float("-inf")).softmax(-1)
    weights = weights.masked_fill((context_lens == 0)[:, None, None, None], 0.0)
    return (weights @ values).view(B, Hq, D).to(q.dtype)
