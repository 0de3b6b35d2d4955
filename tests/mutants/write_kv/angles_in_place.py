"""Fault: the angles' sines are negated in place to turn k, and the next layer gets them so."""

from __future__ import annotations

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    out = write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps)
    sin.neg_()
    return out
