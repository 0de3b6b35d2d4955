"""Fault: q is normalised, k is not."""

from __future__ import annotations

from minfer.norm.torch import rms_norm
from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    return write_kv(q if q_norm is None else rms_norm(q, q_norm, eps), k, v, cos, sin, kv, slots, None, None, eps)
