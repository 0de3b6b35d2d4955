"""Fault: queries are kept in a buffer of the sizes of a batch, and are not copied into it again."""

from __future__ import annotations

from minfer.attention.torch import attention

buffers = {}


def mutant(q, kv, batch, scale, window):
    kept = buffers.setdefault((tuple(batch.contexts), q.shape, q.dtype), q.clone())
    return attention(kept.clone(), kv, batch, scale, window)
