"""Fault: the first token of a block clears the rest of it."""

from __future__ import annotations

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    size = kv[0].shape[1]
    for cache in kv:
        cache[slots[slots % size == 0] // size] = 0
    return write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps)
