"""The product of a single token: a matrix times a vector (GEMV), which reads every weight once and is bound by nothing else.

Layouts: x [1, I]; weight [O, I], contiguous rows; bias [O] or none; out [1, O].

Grid: ceil(O / ROWS) programs, each the inner products of ROWS rows of the weight with x, block by block. cuBLAS uses matrix units,
made for sixteen tokens at least, and where O is small leaves most of the card idle. The first block of the weight is on its way
before the kernel in front, which makes x, has ended.

More tokens take the PyTorch part. The choice depends on their number only, so a captured launch stays right.

From: `model.py`, at q|k|v, o, gate|up, down and the head. To: the norm, attention or activation that follows.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.launch import overlap

needs = {"cuda", "triton"}

MANY = 8192  # outputs


@triton.jit
def gemv(
    x, weight, bias, out, weight_row, O, I: tl.constexpr,  # noqa: E741
    ROWS: tl.constexpr, BLOCK: tl.constexpr, BIAS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    ok = row < O
    weight += tl.minimum(row, O - 1).to(tl.int64)[:, None] * weight_row + column[None, :]
    if OVERLAP:
        gdc_launch_dependents()
    even: tl.constexpr = I % BLOCK == 0
    zero = None if even else 0.0
    w = tl.load(weight, mask=None if even else (column < I)[None, :], other=zero)
    if OVERLAP:
        gdc_wait()
    total = w.to(tl.float32) * tl.load(x + column, mask=None if even else column < I, other=zero).to(tl.float32)[None, :]
    for start in tl.static_range(BLOCK, I, BLOCK):
        inside = None if even else start + column < I
        inputs = tl.load(x + start + column, mask=inside, other=zero)
        w = tl.load(weight + start, mask=None if even else inside[None, :], other=zero)
        total += w.to(tl.float32) * inputs.to(tl.float32)[None, :]
    y = tl.sum(total, 1)
    if BIAS:
        y += tl.load(bias + row, mask=ok).to(tl.float32)
    tl.store(out + row, y.to(out.dtype.element_ty), mask=ok)


class Shape(NamedTuple):
    """How the work is cut: outputs of a program, inputs in a block, warps of a program."""

    rows: int
    block: int
    warps: int


def shape(I: int, O: int) -> Shape:  # noqa: E741
    """Measured in captured decode steps on an H200. Most have 32 weights of a block in each thread."""
    block = min(2048, 1 << (I.bit_length() - 1))
    if block < 2048:
        return Shape(min(8192 // block, 8), block, 4)
    if I == 2048 or I % 1024:
        return Shape(2, block, 4)
    return Shape(1 if O > MANY else 4, block, 8)  # one output a program where there are many, so that the last round is short


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """See `minfer.parts.Linear`. Sums are float32."""
    O, I = weight.shape  # noqa: E741
    if len(x) != 1 or not O or not I:
        return F.linear(x, weight, bias)
    rows, block, warps = shape(I, O)
    out = torch.empty(1, O, dtype=x.dtype, device=x.device)
    gemv[(triton.cdiv(O, rows),)](
        x.contiguous(), weight, bias, out, weight.stride(0), O, I=I, ROWS=rows, BLOCK=block, BIAS=bias is not None,
        num_warps=warps, **overlap(x.device),
    )  # fmt: skip
    return out
