"""Fault: exp of the scores as they are: large ones overflow."""

from __future__ import annotations

import torch

from minfer.parts import KV
from minfer.types import Batch


def mutant(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    out, token, group = torch.zeros_like(q), 0, q.shape[1] // kv[0].shape[2]
    for row, (queries, context) in enumerate(zip(batch.query_lens, batch.contexts, strict=True)):
        positions = torch.arange(context)
        blocks, offsets = batch.block_tables[row][positions // kv[0].shape[1]].long(), positions % kv[0].shape[1]
        keys, values = (cache[blocks, offsets].float().repeat_interleave(group, dim=1) for cache in kv)
        for at in range(context - queries, context):
            if context:
                seen = slice(max(0, at - window + 1) if window else 0, at + 1)
                weights = (torch.einsum("hd,khd->hk", q[token].float(), keys[seen]) * scale).exp()
                weights /= weights.sum(-1, keepdim=True)
                out[token] = torch.einsum("hk,khd->hd", weights, values[seen]).to(q.dtype)
            token += 1
    return out
