"""Fault: v is rotated like k."""

from __future__ import annotations

from minfer.write_kv.torch import rotate, write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    return write_kv(q, k, rotate(v, cos[:, None], sin[:, None]).to(v.dtype), cos, sin, kv, slots, q_norm, k_norm, eps)
