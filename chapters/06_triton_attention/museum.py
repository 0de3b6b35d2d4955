"""The bug museum of chapter 6: decode attention whose merge has one fault. Find it before you run it.

The fault is of a kind that engines have had. It shows for rows of one sort only, and only where a batch is so small that contexts are
split. `decode` and all else are those of the reference.

From and to: as `minfer/attention/triton_decode.py`, whose place it takes.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from minfer.attention import triton_decode
from minfer.attention.torch import prefill
from minfer.attention.triton_decode import LOG2E, decode, padded_head, pieces, shape
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}


@triton.jit(do_not_specialize=["num_splits"])
def merge(partial, lse, out, num_splits, D: tl.constexpr, DP: tl.constexpr, SP: tl.constexpr):
    """Weigh the values of each split by its share of the whole sum."""
    head, row = tl.program_id(0), tl.program_id(1)
    place = (row * tl.num_programs(0) + head).to(tl.int64)
    split, dim = tl.arange(0, SP), tl.arange(0, DP)
    logs = tl.load(lse + place * num_splits + split, mask=split < num_splits, other=float("-inf"))
    weights = tl.exp2(logs - tl.max(logs, 0))
    mask = (split < num_splits)[:, None] & (dim < D)[None, :]
    values = tl.load(partial + (place * num_splits + split)[:, None] * D + dim[None, :], mask=mask, other=0.0)
    mean = tl.sum(values * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + place * D + dim, mean.to(out.dtype.element_ty), mask=dim < D)


def decode_attention(q: torch.Tensor, kv: KV, batch: Batch, num_rows: int, scale: float, window: int | None, out: torch.Tensor) -> None:
    """The first num_rows rows of q [.., Hq, D], one query a sequence, into those of the contiguous `out`."""
    (_, Hq, D), (_, block_size, Hkv, _) = q.shape, kv[0].shape
    group, padded = Hq // Hkv, padded_head(D)
    splits, tile, warps, stages = shape(num_rows, Hkv, padded * q.element_size())
    if splits == 1:
        triton_decode.decode_attention(q, kv, batch, num_rows, scale, window, out)
        return
    partial = torch.empty(num_rows, Hq, splits, D, dtype=torch.float32, device=q.device)
    lse = torch.empty(num_rows, Hq, splits, dtype=torch.float32, device=q.device)
    decode[(Hkv, num_rows, splits)](
        q, *kv, out, partial, lse, batch.block_tables, batch.context_lens, scale * LOG2E, splits, window or 0,
        q.stride(0), batch.block_tables.stride(0), *strides(kv),
        G=group, GP=max(16, triton.next_power_of_2(group)), D=D, DP=padded, BLOCK=block_size, TILE=tile,
        PIECES=pieces(tile, block_size), ALIGN=1, SPLIT=True, WINDOW=window is not None, OVERLAP=False,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    merge[(Hq, num_rows)](partial, lse, out, splits, D=D, DP=padded, SP=triton.next_power_of_2(splits))


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    first = batch.num_decode
    if first:
        decode_attention(q, kv, batch, first, scale, window, out)
    for row in range(batch.num_decode, batch.num_seqs):
        last = first + batch.query_lens[row]
        out[first:last] = prefill(q[first:last], kv, batch.block_tables[row], batch.contexts[row], scale, window)
        first = last
    return out
