"""Fault: head sizes are rounded down to a power of two, and the dimensions beyond take no part in the scores."""

from __future__ import annotations

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    lanes = 1 << (q.shape[2].bit_length() - 1)
    cut = q.clone()
    cut[..., lanes:] = 0
    return attention(cut, kv, batch, scale, window)
