"""Fault: the angles have the wrong sign."""

from __future__ import annotations

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    return write_kv(q, k, v, cos, -sin, kv, slots, q_norm, k_norm, eps)
