"""Fault: the part of a block table behind the context is overwritten, in the batch that all layers share."""

from __future__ import annotations

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    size = kv[0].shape[1]
    for table, context in zip(batch.block_tables, batch.contexts, strict=True):
        table[-(-context // size) :] = 1
    return attention(q, kv, batch, scale, window)
