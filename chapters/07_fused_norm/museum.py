"""The bug museum of chapter 7: a fused norm with one fault. Find it before you run it.

The fault is of a kind that kernels have had: it was right for every model that its author tried.

From and to: as `minfer/norm/triton.py`, whose place it takes.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

needs = {"cuda", "triton"}


@triton.jit
def kernel(x, residual, y, weight, eps, x_row, residual_row, H: tl.constexpr, HP: tl.constexpr, ADD: tl.constexpr):
    """One row: r = x + residual, and its norm."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, HP)
    ok = column < H
    r = tl.load(x + row * x_row + column, mask=ok, other=0.0).to(tl.float32)
    if ADD:
        r += tl.load(residual + row * residual_row + column, mask=ok, other=0.0).to(tl.float32)
        tl.store(residual + row * residual_row + column, r.to(residual.dtype.element_ty), mask=ok)
    gain = tl.load(weight + column, mask=ok, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(r * r, 0) / HP + eps)
    tl.store(y + row * H + column, (r * scale * gain).to(y.dtype.element_ty), mask=ok)


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """See `minfer.parts.Norm`. Writes the sum into `residual`."""
    T, H = x.shape
    summed = x if residual is None else residual
    y = torch.empty(T, H, dtype=x.dtype, device=x.device)
    if T:
        kernel[(T,)](
            x, summed, y, weight, eps, x.stride(0), summed.stride(0),
            H=H, HP=triton.next_power_of_2(H), ADD=residual is not None,
        )  # fmt: skip
    return y, summed
