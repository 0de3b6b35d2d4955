"""Fault: a prefill chunk has no causal mask."""

from __future__ import annotations

from minfer.attention.torch import attention, decode


def mutant(q, kv, batch, scale, window):
    out, first = attention(q, kv, batch, scale, window), batch.num_decode
    for row in range(batch.num_decode, batch.num_seqs):
        table, context = batch.block_tables[row : row + 1], batch.contexts[row]
        for token in range(first, first + batch.query_lens[row]):
            out[token] = decode(q[token : token + 1], kv, table, batch.context_lens[row : row + 1], [context], scale, window)[0]
        first += batch.query_lens[row]
    return out
