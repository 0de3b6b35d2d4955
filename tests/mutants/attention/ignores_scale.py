"""Fault: the scale is always one over the root of the head size."""

from __future__ import annotations

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    return attention(q, kv, batch, q.shape[2] ** -0.5, window)
