"""Slot `linear`, plain PyTorch: the matrix product behind every projection of the model.

From: `model.py`, at q|k|v, o, gate|up, down and the head. To: the norm, attention or activation that follows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """x [T, I], weight [O, I], bias [O] or None → x weightᵀ + bias, [T, O]."""
    return F.linear(x, weight, bias)
