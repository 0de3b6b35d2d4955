"""Slot `activation`, plain PyTorch: SwiGLU's gate (Shazeer 2020, arXiv:2002.05202).

From: the fused gate|up projection of `model.py`. To: its down projection.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """[T, 2 I] → silu(first half) * second half, [T, I]. silu is rounded to the dtype first, as transformers does."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)
