"""Fault: the last page is read to its end: what lies beyond the context is masked, but its values are multiplied by zero."""

from __future__ import annotations

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    out, size = attention(q, kv, batch, scale, window), kv[0].shape[1]
    for row in range(batch.num_decode):
        if batch.contexts[row]:
            page = kv[1][batch.block_tables[row, (batch.contexts[row] - 1) // size]]
            out[row] += 0 * page.sum(0).repeat_interleave(q.shape[1] // page.shape[1], dim=0)
    return out
