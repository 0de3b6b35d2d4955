"""Fault: the scales of a batch of this shape are computed once."""

from __future__ import annotations

import torch

from minfer.norm.torch import add_rms_norm

scales = {}


def mutant(x, residual, weight, eps):
    out, summed = add_rms_norm(x, residual, weight, eps)
    fresh = torch.rsqrt(summed.float().pow(2).mean(-1, keepdim=True) + eps)
    scale = scales.setdefault((x.shape, x.dtype, eps, residual is None), fresh)
    return (summed.float() * scale).to(x.dtype) * weight if x.shape[0] else out, summed
