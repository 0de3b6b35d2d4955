"""Fault: contexts are cut into parts of 64 keys, and the results of the parts are averaged as if each had the same sum."""

from __future__ import annotations

import torch

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    out = attention(q, kv, batch, scale, window)
    size = kv[0].shape[1]
    for row in range(batch.num_decode):
        context = batch.contexts[row]
        if context <= 64 or window:
            continue
        at = torch.arange(context)
        keys, values = (cache[batch.block_tables[row].long()[at // size], at % size].transpose(0, 1).float() for cache in kv)
        heads = q[row].view(keys.shape[0], -1, q.shape[-1]).float()
        parts = [
            (heads @ k.transpose(1, 2) * scale).softmax(-1) @ v for k, v in zip(keys.split(64, 1), values.split(64, 1), strict=True)
        ]
        out[row] = torch.stack(parts).mean(0).flatten(0, 1).to(out.dtype)
    return out
