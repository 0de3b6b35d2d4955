# Chapter 10, Two more fused kernels. Edit this file: it is your
#   write_kv for the slot write_kv
#   silu_mul for the slot activation
#
#   task1, 2 points: SiLU times up
#   task2, 5 points: Turn, and find the place
#   task3, 3 points: q and k norms
#
#   minfer check ch10              what is right so far, and your points
#   minfer check ch10 -k task1     one task only
#   minfer hint ch10 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text bfeeeedc.

"""Slot `write_kv`

q/k norm, rotary embedding and the write into the KV cache in one Triton kernel.

Layouts
    q [T, Hq, D], k and v [T, Hkv, D]: views of the fused projection, heads side by side, any row stride
    cos, sin [T, D / 2] float32, any row stride; q_norm, k_norm [D]; slots [T] int64
    K, V [N, block_size, Hkv, D], any strides but the last, the same for both
    out [T, Hq, D]

Grid: (T, ceil((Hq + 2 Hkv) / HEADS)). A program turns HEADS neighbouring heads of one token: queries go to `out`, keys and values
to the token's slot. Every value is read once and written once; the plain version makes a dozen passes.

From: the fused q|k|v projection of `model.py`. To: K and V into the cache's pages, the rotated q to `attention`.

Slot `activation`

SiLU·mul in one Triton kernel.

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

from minfer.activation.triton import TILE
from minfer.launch import overlap
from minfer.parts import KV
from minfer.write_kv.layout import strides
from minfer.write_kv.triton import HEADS

needs = {"cuda", "triton"}


@triton.jit
def turn_and_write(
    q, k, v, out, k_cache, v_cache, cos, sin, slots, q_norm, k_norm, eps,
    q_row, k_row, v_row, cos_row, sin_row, block_stride, token_stride, head_stride,
    Hq: tl.constexpr, Hkv: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr,
    BLOCK: tl.constexpr, NORM: tl.constexpr, HEADS: tl.constexpr, OVERLAP: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    dim = tl.arange(0, HALF)
    in_half = (dim < D // 2)[None, :]
    is_q, is_k = head < Hq, (head >= Hq) & (head < Hq + Hkv)
    is_v = (head >= Hq + Hkv) & (head < Hq + 2 * Hkv)

    q_at = (q + token * q_row + head * D)[:, None] + dim[None, :]
    k_at = (k + token * k_row + (head - Hq) * D)[:, None] + dim[None, :]
    v_at = (v + token * v_row + (head - Hq - Hkv) * D)[:, None] + dim[None, :]
    at = tl.where(is_q[:, None], q_at, tl.where(is_k[:, None], k_at, v_at))
    mask = (is_q | is_k | is_v)[:, None] & in_half
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    first = tl.load(at, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(at + D // 2, mask=mask, other=0.0).to(tl.float32)

    if NORM:
        # ch10 task3: normalise each head of q and of k, and multiply it by its weight; v stays as it is
        tl.static_assert(False, "ch10 task3: normalise each head of q and of k, and multiply it by its weight; v stays as it is")
    # ch10 task2: turn the pairs of q and of k, and find where each head goes: to out, or into the slot of the token in K or V
    tl.static_assert(False, "ch10 task2: turn the pairs of q and of k, and find where each head goes: to out, or into the slot of ...")
    tl.store(to, turned_first.to(out.dtype.element_ty), mask=mask)
    tl.store(to + D // 2, turned_second.to(out.dtype.element_ty), mask=mask)


def write_kv(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    kv: KV,
    slots: torch.Tensor,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    """See `minfer.parts.WriteKV`. Heads lie side by side: the strides of q, k and v are (anything, D, 1)."""
    (T, Hq, D), Hkv = q.shape, k.shape[1]
    out = torch.empty(T, Hq, D, dtype=q.dtype, device=q.device)
    if T:
        parts = triton.cdiv(Hq + 2 * Hkv, HEADS)
        turn_and_write[(T, parts)](
            q, k, v, out, *kv, cos, sin, slots, q_norm, k_norm, eps,
            q.stride(0), k.stride(0), v.stride(0), cos.stride(0), sin.stride(0), *strides(kv),
            Hq=Hq, Hkv=Hkv, D=D, HALF=triton.next_power_of_2(D // 2),
            BLOCK=kv[0].shape[1], NORM=q_norm is not None, HEADS=HEADS, num_warps=2, **overlap(q.device, T),
        )  # fmt: skip
    return out


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
    tl.static_assert(False, "ch10 task1: load gate and up, and store silu(gate) * up")


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """See `minfer.parts.Activation`."""
    T, I = gate_up.shape[0], gate_up.shape[1] // 2  # noqa: E741
    out = torch.empty(T, I, dtype=gate_up.dtype, device=gate_up.device)
    if T:
        programs = T * triton.cdiv(I, TILE)
        gate_times_up[(programs,)](gate_up, out, gate_up.stride(0), I=I, TILE=TILE, num_warps=4, **overlap(out.device, T))
    return out
