"""Matrix products of few tokens, which read every weight once and are bound by nothing else.

Layouts: x [T, I], weight [O, I], rows contiguous; bias [O] or none; out [T, O]; partial [splits, T, O] float32.

Grid of `gemv`, for a single token: ceil(O / ROWS) programs, each the inner products of ROWS rows of the weight with x. Matrix units
would do sixteen tokens' work for it, and cuBLAS leaves most of the card idle where O is small. The first block of the weight is on its
way before the kernel in front, which makes x, has ended.

Grid of `gemm`, for a few tokens: (ceil(O / ROWS), splits). A program multiplies ROWS rows of the weight with all tokens, over one
part of the inputs: with O / ROWS programs alone most of the card would be idle. Grid of `add_up`: (T, ceil(O / TILE)); it sums the
parts, in order, so that the result is the same each time.

Which one is used depends on sizes only, so a captured launch stays right. It was measured on an H200 against cuBLAS, which keeps
all other sizes.

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

TILE = 1024  # outputs of one program of `add_up`


class Shape(NamedTuple):
    """How `gemv` or `gemm` is cut: rows of the weight and inputs in a block, parts of the inputs, warps, blocks in flight."""

    rows: int
    block: int
    splits: int
    warps: int
    stages: int


@triton.jit
def gemv(
    x, weight, bias, out, weight_row, O: tl.constexpr, I: tl.constexpr,  # noqa: E741
    ROWS: tl.constexpr, BLOCK: tl.constexpr, BIAS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    ok = None if O % ROWS == 0 else row < O
    weight += tl.minimum(row, O - 1).to(tl.int64)[:, None] * weight_row + column[None, :]
    if OVERLAP == 2:
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


@triton.jit
def gemm(
    x, weight, bias, out, num_tokens, share, x_row, weight_row, O: tl.constexpr, I: tl.constexpr,  # noqa: E741
    ROWS: tl.constexpr, BLOCK: tl.constexpr, TOKENS: tl.constexpr, SPLIT: tl.constexpr, BIAS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.arange(0, TOKENS)
    column = tl.arange(0, BLOCK)
    x_at = x + tl.minimum(token, num_tokens - 1)[None, :] * x_row + column[:, None]
    weight_at = weight + tl.minimum(row, O - 1).to(tl.int64)[:, None] * weight_row + column[None, :]
    total = tl.zeros([ROWS, TOKENS], tl.float32)
    low = split * share
    if OVERLAP == 2:
        gdc_launch_dependents()
    if OVERLAP:
        gdc_wait()
    for start in range(low, tl.minimum(low + share, I), BLOCK):
        inside = None if I % BLOCK == 0 else start + column < I
        zero = None if I % BLOCK == 0 else 0.0
        w = tl.load(weight_at + start, mask=None if I % BLOCK == 0 else inside[None, :], other=zero)
        inputs = tl.load(x_at + start, mask=None if I % BLOCK == 0 else inside[:, None], other=zero)
        total = tl.dot(w, inputs, total, input_precision="ieee")
    if BIAS:
        total += tl.load(bias + row, mask=row < O).to(tl.float32)[:, None]
    at = (split * num_tokens + token).to(tl.int64)[None, :] * O + row[:, None]
    tl.store(out + at, total.to(out.dtype.element_ty), mask=(row < O)[:, None] & (token < num_tokens)[None, :])


@triton.jit
def add_up(partial, bias, out, num_splits, O: tl.constexpr, TILE: tl.constexpr, BIAS: tl.constexpr, OVERLAP: tl.constexpr):  # noqa: E741
    token = tl.program_id(0)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    ok = None if O % TILE == 0 else column < O
    total = tl.zeros([TILE], tl.float32)
    if BIAS:
        total += tl.load(bias + column, mask=ok).to(tl.float32)
    if OVERLAP == 2:
        gdc_launch_dependents()
    if OVERLAP:
        gdc_wait()
    for split in range(num_splits):
        total += tl.load(partial + (split * tl.num_programs(0) + token).to(tl.int64) * O + column, mask=ok)
    tl.store(out + token.to(tl.int64) * O + column, total.to(out.dtype.element_ty), mask=ok)


def shape(T: int, I: int, O: int) -> Shape | None:  # noqa: E741
    """The way that was fastest on an H200; None where cuBLAS was."""
    if T == 1:
        return Shape(4, min(2048, max(64, triton.next_power_of_2(I))), 1, 8, 1)
    return None


def one_token(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, cut: Shape) -> torch.Tensor:
    O, I = weight.shape  # noqa: E741
    out = torch.empty(1, O, dtype=x.dtype, device=x.device)
    programs = triton.cdiv(O, cut.rows)
    gemv[(programs,)](
        x, weight, bias, out, weight.stride(0), O=O, I=I,
        ROWS=cut.rows, BLOCK=cut.block, BIAS=bias is not None, num_warps=cut.warps, **overlap(x.device, programs),
    )  # fmt: skip
    return out


def few_tokens(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, cut: Shape) -> torch.Tensor:
    T, (O, I) = len(x), weight.shape  # noqa: E741
    out = torch.empty(T, O, dtype=x.dtype, device=x.device)
    share = triton.cdiv(triton.cdiv(I, cut.block), cut.splits) * cut.block
    splits, parts = triton.cdiv(I, share), triton.cdiv(O, cut.rows)
    partial = torch.empty(splits, T, O, dtype=torch.float32, device=x.device) if splits > 1 else out
    gemm[(parts, splits)](
        x, weight, bias, partial, T, share, x.stride(0), weight.stride(0), O=O, I=I,
        ROWS=cut.rows, BLOCK=cut.block, TOKENS=max(16, triton.next_power_of_2(T)), SPLIT=splits > 1,
        BIAS=bias is not None and splits == 1, num_warps=cut.warps, num_stages=cut.stages, **overlap(x.device, parts * splits),
    )  # fmt: skip
    if splits > 1:
        tiles = triton.cdiv(O, TILE)
        add_up[(T, tiles)](partial, bias, out, splits, O=O, TILE=TILE, BIAS=bias is not None, **overlap(x.device, T * tiles))
    return out


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """See `minfer.parts.Linear`. float32 is computed in float32."""
    T, (O, I) = len(x), weight.shape  # noqa: E741
    cut = shape(T, I, O) if T and I and O else None
    if cut is None:
        return F.linear(x, weight, bias)
    return (one_token if T == 1 else few_tokens)(x.contiguous(), weight, bias, cut)
