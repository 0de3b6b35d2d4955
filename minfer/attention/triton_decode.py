"""Decode attention in Triton: one query a row over its pages, each K and V byte read once for all query heads that share it.

Layouts
    q            [B, Hq, D]                   heads of one K/V head side by side, so a group is G = Hq / Hkv neighbours
    K, V         [N, block_size, Hkv, D]      any strides but the last, the same for both
    block_tables [B, M] int32, context_lens [B] int32
    partial      [B, Hq, splits, D] float32   each split's own softmax-weighted values
    lse          [B, Hq, splits] float32      log2 of each split's sum of exponentials, -inf where it had no keys

Grid of `decode`: (Hkv, B, splits). A program takes one K/V head of one sequence and one part of its context, tile by tile, with an
online softmax. A group's queries fill the rows of one matrix product. Few sequences are split further, so that the card is full
(Dao et al., "Flash-Decoding for long-context inference", 2023): the number of splits depends on B only, so a captured launch
stays valid while contexts grow. Grid of `merge`: (Hq, B); it weighs the splits' values by their sums.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`. Prefill chunks of a
mixed batch take the PyTorch part.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from minfer.attention.torch import prefill
from minfer.launch import overlap
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}

PROGRAMS = 256  # enough to fill the card
LOG2E = 1.4426950408889634


@triton.jit
def spread(blocks, stride, PIECES: tl.constexpr, TILE: tl.constexpr, ALIGN: tl.constexpr):
    """Where each of a tile's tokens' blocks begins, [TILE] int64: one block for every TILE / PIECES neighbouring tokens.

    64 bits, since a large cache passes 2^31 elements. The hint tells the compiler of an alignment that the reshape hides from it;
    without it the loads are neither wide nor asynchronous.
    """
    starts = blocks.to(tl.int64) * stride
    each = tl.broadcast_to(starts[:, None], [PIECES, TILE // PIECES])
    return tl.multiple_of(tl.reshape(each, [TILE]), [ALIGN])


# Sizes that change from step to step must not make Triton compile the kernel anew.
@triton.jit(do_not_specialize=["num_splits", "table_row"])
def decode(
    q, k_cache, v_cache, out, partial, lse, block_tables, context_lens, scale, num_splits, window,
    q_row, table_row, block_stride, token_stride, head_stride,
    G: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr,
    PIECES: tl.constexpr, ALIGN: tl.constexpr, SPLIT: tl.constexpr, WINDOW: tl.constexpr,
    OVERLAP: tl.constexpr,
):  # fmt: skip
    head, row, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    num_heads = tl.num_programs(0) * G
    if OVERLAP:
        gdc_wait()
    end = tl.load(context_lens + row)
    begin = 0
    if WINDOW:
        begin = tl.maximum(end - window, 0)
    first = begin // TILE * TILE  # tiles start at multiples of TILE, so that each holds whole pages or lies within one
    share = tl.cdiv(tl.cdiv(end - first, num_splits), TILE) * TILE
    low = first + split * share
    high = tl.minimum(low + share, end)

    group, dim, step = tl.arange(0, GP), tl.arange(0, DP), tl.arange(0, TILE)
    heads = head * G + group
    q_mask = (group < G)[:, None] & (dim < D)[None, :]
    queries = tl.load(q + row * q_row + heads[:, None] * D + dim[None, :], mask=q_mask, other=0.0)
    table = block_tables + row.to(tl.int64) * table_row
    k_cache += head * head_stride
    v_cache += head * head_stride

    best = tl.full([GP], float("-inf"), tl.float32)
    total = tl.zeros([GP], tl.float32)
    values = tl.zeros([GP, DP], tl.float32)
    # A tile lies in PIECES pages. They are looked up one tile ahead, so that the loads of K and V never wait for the table.
    piece = tl.arange(0, PIECES) * (TILE // PIECES)
    last = tl.maximum(high, 1) - 1
    blocks = tl.load(table + tl.minimum(low + piece, last) // BLOCK)
    for start in range(low, high, TILE):
        position = start + step
        ok = position < high
        if WINDOW:
            ok = ok & (position >= begin)
        mask = ok[:, None]
        if D < DP:
            mask = mask & (dim < D)[None, :]
        following = tl.load(table + tl.minimum(start + TILE + piece, last) // BLOCK)
        at = (spread(blocks, block_stride, PIECES, TILE, ALIGN) + (position % BLOCK) * token_stride)[:, None] + dim[None, :]
        # ch06 task2: fold the keys and values of this tile into best, total and values
        k = tl.load(k_cache + at, mask=mask, other=0.0)
        scores = tl.dot(queries, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(ok[None, :], scores, float("-inf"))
        better = tl.maximum(best, tl.max(scores, 1))  # finite: some key of every tile is seen
        weights = tl.exp2(scores - better[:, None])
        fade = tl.exp2(best - better)
        total = total * fade + tl.sum(weights, 1)
        v = tl.load(v_cache + at, mask=mask, other=0.0)
        values = values * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        best = better
        # end of ch06 task2
        blocks = following

    values = values / tl.where(total > 0, total, 1.0)[:, None]  # zeros for a split without keys, or a row without context
    place = row * num_heads + heads
    if SPLIT:
        part = place.to(tl.int64) * num_splits + split
        tl.store(partial + part[:, None] * D + dim[None, :], values, mask=q_mask)
        tl.store(lse + part, best + tl.log2(total), mask=group < G)
    else:
        tl.store(out + place[:, None] * D + dim[None, :], values.to(out.dtype.element_ty), mask=q_mask)


@triton.jit(do_not_specialize=["num_splits"])
def merge(partial, lse, out, num_splits, D: tl.constexpr, DP: tl.constexpr, SP: tl.constexpr, OVERLAP: tl.constexpr):
    head, row = tl.program_id(0), tl.program_id(1)
    place = (row * tl.num_programs(0) + head).to(tl.int64)
    split, dim = tl.arange(0, SP), tl.arange(0, DP)
    in_head = dim < D
    if OVERLAP:
        gdc_launch_dependents()
        gdc_wait()
    # ch06 task3: weigh the values of each split by its share of the whole sum; zeros for a row without context
    logs = tl.load(lse + place * num_splits + split, mask=split < num_splits, other=float("-inf"))
    best = tl.max(logs, 0)
    weights = tl.exp2(logs - tl.where(best == float("-inf"), 0.0, best))  # all zero for a row without context
    mask = (split < num_splits)[:, None] & in_head[None, :]
    values = tl.load(partial + (place * num_splits + split)[:, None] * D + dim[None, :], mask=mask, other=0.0)
    total = tl.sum(weights, 0)
    mean = tl.sum(values * weights[:, None], 0) / tl.where(total > 0, total, 1.0)
    # end of ch06 task3
    tl.store(out + place * D + dim, mean.to(out.dtype.element_ty), mask=in_head)


class Shape(NamedTuple):
    """How the work is cut: parts of each context, keys in one step of the loop, warps of a program, tiles in flight."""

    splits: int
    tile: int
    warps: int
    stages: int


def max_splits(kv_heads: int) -> int:
    """Parts of one sequence's context where it is alone."""
    return min(-(-PROGRAMS // kv_heads), 128)


def shape(num_rows: int, kv_heads: int, row_bytes: int) -> Shape:
    """From static sizes only: sequences, K/V heads, and bytes of one head.

    Few programs fit on the card whatever their size, and large tiles keep more bytes in flight. Of many, three fit on a
    multiprocessor with four tiles of 8 KiB each; they also take ragged contexts best. Where heads are long there are fewer tiles in
    flight, so that they fit into every card.
    """
    programs, most = num_rows * kv_heads, max(1, 1024 // row_bytes)
    if programs <= PROGRAMS:
        return Shape(min(-(-PROGRAMS // programs), max_splits(kv_heads)), 64, 4, min(3, most))
    return Shape(1, 64 if row_bytes <= 128 else 32, 2, min(4, most))


def pieces(tile: int, block_size: int) -> int:
    """Pages that a tile lies in, where it starts at a multiple of its size; each token by itself where they do not fit."""
    fits = tile % block_size == 0 or block_size % tile == 0
    return max(tile // block_size, 1) if fits else tile


def decode_attention(q: torch.Tensor, kv: KV, batch: Batch, num_rows: int, scale: float, window: int | None, out: torch.Tensor) -> None:
    """The first num_rows rows of q [.., Hq, D], one query a sequence, into those of the contiguous `out`; no context gives zeros."""
    (_, Hq, D), (_, block_size, Hkv, _) = q.shape, kv[0].shape
    group, padded = Hq // Hkv, padded_head(D)
    splits, tile, warps, stages = shape(num_rows, Hkv, padded * q.element_size())
    partial = lse = out
    if splits > 1:
        partial = torch.empty(num_rows, Hq, splits, D, dtype=torch.float32, device=q.device)
        lse = torch.empty(num_rows, Hq, splits, dtype=torch.float32, device=q.device)
    block_stride, token_stride, head_stride = strides(kv)
    decode[(Hkv, num_rows, splits)](
        q, *kv, out, partial, lse, batch.block_tables, batch.context_lens, scale * LOG2E, splits, window or 0,
        q.stride(0), batch.block_tables.stride(0), block_stride, token_stride, head_stride,
        G=group, GP=max(16, triton.next_power_of_2(group)), D=D, DP=padded,
        BLOCK=block_size, TILE=tile, PIECES=pieces(tile, block_size), ALIGN=math.gcd(16, block_stride),
        SPLIT=splits > 1, WINDOW=window is not None, num_warps=warps, num_stages=stages,
        **overlap(q.device),
    )  # fmt: skip
    if splits > 1:
        merge[(Hq, num_rows)](
            partial, lse, out, splits, D=D, DP=padded, SP=triton.next_power_of_2(max_splits(Hkv)), num_warps=4,
            **overlap(q.device),
        )  # fmt: skip


def padded_head(head_dim: int) -> int:
    """A head as the matrix units take it: a power of two, and 16 at least."""
    return max(16, triton.next_power_of_2(head_dim))


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. q's heads lie side by side: its strides are (anything, D, 1)."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    first = batch.num_decode
    if first:
        decode_attention(q, kv, batch, first, scale, window, out)
    # ch06 task1: run prefill on each chunk, with the pages and the context of its own sequence
    for row in range(batch.num_decode, batch.num_seqs):
        last = first + batch.query_lens[row]
        out[first:last] = prefill(q[first:last], kv, batch.block_tables[row], batch.contexts[row], scale, window)
        first = last
    # end of ch06 task1
    return out
