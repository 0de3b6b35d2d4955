"""SiLU·mul in one Triton kernel.

Layouts: gate_up [T, 2 I] with the gate in the first half of a row, contiguous rows; out [T, I].

Grid: T * ceil(I / TILE) programs, those of a row side by side, so that memory is read in its own order.
Each value is read once and written once; the plain version writes silu(gate) out in between.

From: the fused gate|up projection of `model.py`. To: its down projection.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.launch import overlap

needs = {"cuda", "triton"}

TILE = 1024


@triton.jit
def gate_times_up(gate_up, out, row_stride, I: tl.constexpr, TILE: tl.constexpr, OVERLAP: tl.constexpr):  # noqa: E741
    tiles: tl.constexpr = (I + TILE - 1) // TILE
    row = (tl.program_id(0) // tiles).to(tl.int64)
    column = tl.program_id(0) % tiles * TILE + tl.arange(0, TILE)
    ok = None if I % TILE == 0 else column < I
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    # ch10 task1: load gate and up, and store silu(gate) * up
    gate = tl.load(gate_up + row * row_stride + column, mask=ok).to(tl.float32)
    up = tl.load(gate_up + row * row_stride + I + column, mask=ok).to(tl.float32)
    silu = (gate / (1 + tl.exp(-gate))).to(out.dtype.element_ty).to(tl.float32)  # rounded first, as transformers does
    tl.store(out + row * I + column, silu * up, mask=ok)
    # end of ch10 task1


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """See `minfer.parts.Activation`."""
    T, I = gate_up.shape[0], gate_up.shape[1] // 2  # noqa: E741
    out = torch.empty(T, I, dtype=gate_up.dtype, device=gate_up.device)
    if T:
        programs = T * triton.cdiv(I, TILE)
        gate_times_up[(programs,)](gate_up, out, gate_up.stride(0), I=I, TILE=TILE, num_warps=4, **overlap(out.device, T))
    return out
