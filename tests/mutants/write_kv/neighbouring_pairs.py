"""Fault: neighbours are rotated against each other instead of the two halves of a head."""

from __future__ import annotations

import torch

from minfer.write_kv.torch import write_kv


def mutant(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps):
    half = q.shape[2] // 2
    order = torch.arange(2 * half).view(half, 2).T.flatten()  # even dimensions, then odd ones
    norms = [None if norm is None else norm[order] for norm in (q_norm, k_norm)]
    out = write_kv(q[..., order], k[..., order], v, cos, sin, kv, slots, *norms, eps)[..., order.argsort()]
    block, offset = slots // kv[0].shape[1], slots % kv[0].shape[1]
    kv[0][block, offset] = kv[0][block, offset][..., order.argsort()]
    return out
