"""Fault: where a block begins is computed in 32 bits, and wraps around in a large cache."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    apart = kv[0].stride(0)
    begins = (batch.block_tables.long() * apart).to(torch.int32)
    blocks = (begins.long() // apart).clamp_min(0).to(torch.int32)
    return attention(q, kv, replace(batch, block_tables=blocks), scale, window)
