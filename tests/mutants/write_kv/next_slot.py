"""Fault: a token that would fill the last slot of a block is written one slot too far."""

from __future__ import annotations

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    num_blocks, size = kv[0].shape[:2]
    wrong = (slots + (slots % size == size - 1)).clamp(max=num_blocks * size - 1)
    return write_kv(q, k, v, cos, sin, kv, wrong, q_norm, k_norm, eps)
