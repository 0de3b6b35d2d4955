"""Fault: where a block begins is computed in 32 bits, and wraps around in a large cache."""

from __future__ import annotations

import torch

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    size, apart = kv[0].shape[1], kv[0].stride(0)
    begins = (slots // size * apart).to(torch.int32).long().clamp_min(0)
    return write_kv(q, k, v, cos, sin, kv, begins // apart * size + slots % size, q_norm, k_norm, eps)
