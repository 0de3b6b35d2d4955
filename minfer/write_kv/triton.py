"""q/k norm, rotary embedding and the write into the KV cache in one Triton kernel.

Layouts
    q [T, Hq, D], k and v [T, Hkv, D]: views of the fused projection, heads side by side, any row stride
    cos, sin [T, D / 2] float32, any row stride; q_norm, k_norm [D]; slots [T] int64
    K, V [N, block_size, Hkv, D], any strides but the last, the same for both
    out [T, Hq, D]

Grid: (T, ceil((Hq + 2 Hkv) / HEADS)). A program turns HEADS neighbouring heads of one token: queries go to `out`, keys and values
to the token's slot. Every value is read once and written once; the plain version makes a dozen passes.

From: the fused q|k|v projection of `model.py`. To: K and V into the cache's pages, the rotated q to `attention`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.launch import overlap
from minfer.parts import KV
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}

HEADS = 8


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
        scale = tl.rsqrt((tl.sum(first * first, 1) + tl.sum(second * second, 1)) / D + eps)[:, None]
        weight_at = tl.where(is_q[:, None], q_norm + dim[None, :], k_norm + dim[None, :])
        w_first = tl.load(weight_at, mask=in_half & mask, other=0.0).to(tl.float32)
        w_second = tl.load(weight_at + D // 2, mask=in_half & mask, other=0.0).to(tl.float32)
        dtype = out.dtype.element_ty  # rounded before the weight, as transformers does
        first = tl.where(is_v[:, None], first, (first * scale).to(dtype).to(tl.float32) * w_first)
        second = tl.where(is_v[:, None], second, (second * scale).to(dtype).to(tl.float32) * w_second)
        # end of ch10 task3
    # ch10 task2: turn the pairs of q and of k, and find where each head goes: to out, or into the slot of the token in K or V
    c = tl.load(cos + token * cos_row + dim, mask=dim < D // 2, other=0.0)[None, :]
    s = tl.load(sin + token * sin_row + dim, mask=dim < D // 2, other=0.0)[None, :]
    turned_first = tl.where(is_v[:, None], first, first * c - second * s)
    turned_second = tl.where(is_v[:, None], second, second * c + first * s)

    slot = tl.load(slots + token)
    at = slot // BLOCK * block_stride + slot % BLOCK * token_stride
    out_at = (out + token * (Hq * D) + head * D)[:, None] + dim[None, :]
    k_to = (k_cache + at + (head - Hq) * head_stride)[:, None] + dim[None, :]
    v_to = (v_cache + at + (head - Hq - Hkv) * head_stride)[:, None] + dim[None, :]
    to = tl.where(is_q[:, None], out_at, tl.where(is_k[:, None], k_to, v_to))
    # end of ch10 task2
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
