"""The bug museum of chapter 10: rotary embedding and cache write in one kernel, with one fault. Find it before you run it.

The fault is of a kind that kernels have had: models whose numbers of heads are round never meet it. Models with q and k norms take the
PyTorch part here, which keeps the kernel short.

From and to: as `minfer/write_kv/triton.py`, whose place it takes.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from minfer.parts import KV
from minfer.write_kv.layout import strides
from minfer.write_kv.torch import write_kv as with_norms

needs = {"cuda", "triton"}

HEADS = 8


@triton.jit
def turn_and_write(
    q, k, v, out, k_cache, v_cache, cos, sin, slots,
    q_row, k_row, v_row, cos_row, sin_row, block_stride, token_stride, head_stride,
    Hq: tl.constexpr, Hkv: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr,
):  # fmt: skip
    """HEADS neighbouring heads of one token, of q, then k, then v."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS
    slot = tl.load(slots + token)
    place = slot // BLOCK * block_stride + slot % BLOCK * token_stride
    heads, dim = tl.arange(0, HEADS), tl.arange(0, HALF)
    c = tl.load(cos + token * cos_row + dim, mask=dim < D // 2, other=1.0)[None, :]
    s = tl.load(sin + token * sin_row + dim, mask=dim < D // 2, other=0.0)[None, :]
    if head < Hq:
        source, target, step, last = q + token * q_row + head * D, out + (token * Hq + head) * D, D, Hq - head
    elif head < Hq + Hkv:
        head -= Hq
        source, target, step, last = k + token * k_row + head * D, k_cache + place + head * head_stride, head_stride, Hkv - head
    else:
        head -= Hq + Hkv
        source, target, step, last = v + token * v_row + head * D, v_cache + place + head * head_stride, head_stride, Hkv - head
        c, s = tl.full([1, HALF], 1.0, tl.float32), tl.zeros([1, HALF], tl.float32)
    mask = (heads < last)[:, None] & (dim < D // 2)[None, :]
    first = tl.load(source + heads[:, None] * D + dim[None, :], mask=mask, other=0.0).to(tl.float32)
    second = tl.load(source + heads[:, None] * D + dim[None, :] + D // 2, mask=mask, other=0.0).to(tl.float32)
    at = target + heads[:, None] * step + dim[None, :]
    tl.store(at, (first * c - second * s).to(out.dtype.element_ty), mask=mask)
    tl.store(at + D // 2, (second * c + first * s).to(out.dtype.element_ty), mask=mask)


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
    """See `minfer.parts.WriteKV`."""
    if q_norm is not None:
        return with_norms(q, k, v, cos, sin, kv, slots, q_norm, k_norm, eps)
    (T, Hq, D), Hkv = q.shape, k.shape[1]
    out = torch.empty(T, Hq, D, dtype=q.dtype, device=q.device)
    if T:
        turn_and_write[(T, triton.cdiv(Hq + 2 * Hkv, HEADS))](
            q, k, v, out, *kv, cos, sin, slots,
            q.stride(0), k.stride(0), v.stride(0), cos.stride(0), sin.stride(0), *strides(kv),
            Hq=Hq, Hkv=Hkv, D=D, HALF=triton.next_power_of_2(D // 2), BLOCK=kv[0].shape[1], HEADS=HEADS,
        )  # fmt: skip
    return out
