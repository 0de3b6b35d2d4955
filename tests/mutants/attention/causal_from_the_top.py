"""Fault: a chunk's causal mask is aligned to the first key instead of the last: it hides most of the context before the chunk."""

from __future__ import annotations

from minfer.attention.torch import attention, prefill


def mutant(q, kv, batch, scale, window):
    out, first = attention(q, kv, batch, scale, window), batch.num_decode
    for row in range(batch.num_decode, batch.num_seqs):
        count = batch.query_lens[row]
        out[first : first + count] = prefill(q[first : first + count], kv, batch.block_tables[row], count, scale, window)
        first += count
    return out
