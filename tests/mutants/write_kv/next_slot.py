"""Fault: a token that would fill the last slot of a block is written one slot too far."""

from __future__ import annotations

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    return write_kv(q, k, v, cos, sin, kv, slots + (slots % kv[0].shape[1] == kv[0].shape[1] - 1), q_norm, k_norm, eps)
