"""Slot `norm`, plain PyTorch: residual addition and RMSNorm (Zhang and Sennrich 2019, arXiv:1910.07467).

From: the embedding, or the o and down projections of `model.py`. To: the next projection, and the residual to the next norm.
"""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last dimension; any shape.

    float32 inside, rounded to x's dtype before the weight is applied, as transformers does.
    """
    # ch02 task1: the formula, with the mean in float32
    wide = x.float()
    scale = wide.pow(2).mean(-1, keepdim=True).add_(eps).rsqrt_()
    return (wide * scale).to(x.dtype).mul_(weight)
    # end of ch02 task1


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """r = x + residual (x where residual is None) → (rms_norm(r), r), all [T, H]. Writes r into x."""
    # ch02 task1: add first, then normalise; both come back
    if residual is not None:
        x = x.add_(residual)
    return rms_norm(x, weight, eps), x
    # end of ch02 task1
