"""Fault: a window of w tokens shows w + 1 of them."""

from __future__ import annotations

from minfer.attention.torch import attention


def mutant(q, kv, batch, scale, window):
    return attention(q, kv, batch, scale, window and window + 1)
