"""Fault: a batch of more than 256 rows is cut into launches of 256, and all take the block tables of the first."""

from __future__ import annotations

from dataclasses import replace

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    tables = batch.block_tables.clone()
    late = tables[256 : batch.num_decode]
    late[:] = tables[: len(late)]
    return attention(q, kv, replace(batch, block_tables=tables), scale, window)
