"""Residual addition and RMSNorm in one Triton kernel.

Layouts
    x, residual, y [T, H], rows contiguous; weight [H]
    the sum r = x + residual is written over `residual` (over x where there is none)

Grid: (T,), one program a row. The row stays in registers between the sum and the norm, so the kernel reads x and residual once
and writes r and y once: 4 T H values, nothing else. The plain version takes nine kernels for it.

What is read is marked to stay in the cache (evict_last), though nobody reads it again: what was written then makes room for it, and
goes to memory early. On an H200 that takes 2 % off large batches.

From: the embedding, or the o and down projections of `model.py`. To: the next projection, and the residual to the next norm.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.launch import overlap

needs = {"cuda", "triton"}

VALUES = 8  # that a thread holds: in bfloat16 one load of 16 bytes


@triton.jit
def kernel(
    x, residual, y, weight, eps, x_row, residual_row,
    H: tl.constexpr, HP: tl.constexpr, ADD: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, HP)
    ok = None if H == HP else column < H
    zero = None if H == HP else 0.0
    if OVERLAP:
        gdc_launch_dependents()
    gain = tl.load(weight + column, mask=ok, other=zero)
    if OVERLAP:
        gdc_wait()
    r = tl.load(x + row * x_row + column, mask=ok, other=zero, eviction_policy="evict_last")
    if ADD:
        # ch07 task2: add the residual in float32, then round to what is stored
        other = tl.load(residual + row * residual_row + column, mask=ok, other=zero, eviction_policy="evict_last")
        r = (r.to(tl.float32) + other.to(tl.float32)).to(residual.dtype.element_ty)
        # end of ch07 task2
    # ch07 task1: divide the row by its root mean square, and store it times the weight
    wide = r.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / H + eps)
    normed = (wide * scale).to(y.dtype.element_ty).to(tl.float32)  # rounded before the weight, as transformers does
    tl.store(y + row * H + column, normed * gain.to(tl.float32), mask=ok)
    # end of ch07 task1
    if ADD:
        tl.store(residual + row * residual_row + column, r, mask=ok)


def add_rms_norm(x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """See `minfer.parts.Norm`. Writes the sum into `residual`."""
    T, H = x.shape
    summed = x if residual is None else residual
    y = torch.empty(T, H, dtype=x.dtype, device=x.device)
    if T:
        padded = triton.next_power_of_2(H)
        kernel[(T,)](
            x, summed, y, weight, eps, x.stride(0), summed.stride(0),
            H=H, HP=padded, ADD=residual is not None, num_warps=min(max(padded // VALUES // 32, 1), 16),
            **overlap(x.device, T),
        )  # fmt: skip
    return y, summed
