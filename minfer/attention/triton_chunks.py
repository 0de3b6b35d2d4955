"""Prefill attention for recorded steps: flash attention over the pages, with a launch that depends on the step's padded size only.

Layouts
    q, out       [T, Hq, D]     sequence b owns rows query_start[b] .. query_start[b + 1], the last ones of its context
    K, V         [N, block_size, Hkv, D], any strides but the last, the same for both
    query_start  [B + 1] int32, context_lens [B] int32, block_tables [B, M] int32

Grid: (Hq, tiles). A tile is QUERIES queries of one sequence; T tokens of B sequences make at most T / QUERIES + min(B, T / 2) of them.
Which sequence a tile belongs to, the program counts on the device; programs beyond the last tile end at once. Sequences with one new
token are left out: they are decodes, and `triton_decode` has a kernel for them.

`triton_paged` copies the pages of a chunk into one piece first, which is faster for long prompts. That needs the contexts' total on
the host, so a recorded step looks its pages up in the loop instead, one tile ahead.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from minfer.attention.triton_decode import LOG2E, padded_head, pieces, spread
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}

QUERIES, KEYS = 64, 64


@triton.jit
def find(query_start, num_rows, tile, QUERIES: tl.constexpr, ROWS: tl.constexpr):
    """The sequence that a tile belongs to, and which of its tiles it is; num_rows where there is no such tile."""
    row = tl.arange(0, ROWS)
    ok = row < num_rows
    count = tl.load(query_start + row + 1, mask=ok, other=0) - tl.load(query_start + row, mask=ok, other=0)
    count = tl.where(count > 1, tl.cdiv(count, QUERIES), 0)
    found = tl.sum(((tl.cumsum(count, 0) <= tile) & ok).to(tl.int32), 0)
    return found, tile - tl.sum(tl.where(row < found, count, 0), 0)


@triton.jit
def attend(
    queries, k_cache, v_cache, blocks, start, position, context, window, scale, best, total, result,
    block_stride, token_stride,
    D: tl.constexpr, DP: tl.constexpr, KEYS: tl.constexpr, BLOCK: tl.constexpr, PIECES: tl.constexpr, ALIGN: tl.constexpr,
    MASK: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    """One tile of the online softmax, in base 2: the keys from position `start` on. MASK: not all queries see all of them."""
    key, dim = start + tl.arange(0, KEYS), tl.arange(0, DP)
    at = (spread(blocks, block_stride, PIECES, KEYS, ALIGN) + (key % BLOCK) * token_stride)[:, None] + dim[None, :]
    mask = (key < context)[:, None]
    if D < DP:
        mask = mask & (dim < D)[None, :]
    k = tl.load(k_cache + at, mask=mask, other=0.0)
    scores = tl.dot(queries, tl.trans(k), input_precision="ieee")
    if MASK:
        seen = key[None, :] <= position[:, None]
        if WINDOW:
            seen = seen & (key[None, :] > position[:, None] - window)
        scores = tl.where(seen, scores, float("-inf"))
    better = tl.maximum(best, tl.max(scores, 1) * scale)
    top = better
    if WINDOW:
        top = tl.where(better == float("-inf"), 0.0, better)  # a query whose first key is in a later tile
    weights = tl.exp2(scores * scale - top[:, None])
    fade = tl.exp2(best - top)
    v = tl.load(v_cache + at, mask=mask, other=0.0)
    result = tl.dot(weights.to(v.dtype), v, result * fade[:, None], input_precision="ieee")
    return better, total * fade + tl.sum(weights, 1), result


@triton.jit(do_not_specialize=["table_row", "num_rows"])
def chunks(
    q, k_cache, v_cache, out, query_start, context_lens, block_tables, num_rows, scale, window,
    q_row, table_row, block_stride, token_stride, head_stride,
    Hq: tl.constexpr, Hkv: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, PIECES: tl.constexpr, ALIGN: tl.constexpr, WINDOW: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    row, tile = find(query_start, num_rows, tl.program_id(1), QUERIES, ROWS)
    if row < num_rows:
        query_0 = tl.load(query_start + row)
        num_queries = tl.load(query_start + row + 1) - query_0
        context = tl.load(context_lens + row)
        query, dim = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DP)
        position = context - num_queries + query
        token = (query_0 + query).to(tl.int64)[:, None]
        mask = (query < num_queries)[:, None] & (dim < D)[None, :]
        queries = tl.load(q + token * q_row + head * D + dim[None, :], mask=mask, other=0.0)
        table = block_tables + row.to(tl.int64) * table_row
        k_cache += (head // (Hq // Hkv)) * head_stride
        v_cache += (head // (Hq // Hkv)) * head_stride

        oldest = context - num_queries + tile * QUERIES  # position of the tile's first query
        end = tl.minimum(oldest + QUERIES, context)
        best = tl.full([QUERIES], float("-inf"), tl.float32)
        total = tl.zeros([QUERIES], tl.float32)
        result = tl.zeros([QUERIES, DP], tl.float32)
        begin = 0
        full = (oldest + 1) // KEYS * KEYS  # before it, every query sees every key
        if WINDOW:
            begin = tl.maximum(oldest - window + 1, 0) // KEYS * KEYS
            full = begin
        piece = tl.arange(0, PIECES) * (KEYS // PIECES)
        blocks = tl.load(table + (begin + piece) // BLOCK, mask=begin + piece < end, other=0)
        for start in range(begin, full, KEYS):
            coming = start + KEYS + piece
            following = tl.load(table + coming // BLOCK, mask=coming < end, other=0)
            best, total, result = attend(
                queries, k_cache, v_cache, blocks, start, position, end, window, scale, best, total, result,
                block_stride, token_stride, D, DP, KEYS, BLOCK, PIECES, ALIGN, False, WINDOW,
            )  # fmt: skip
            blocks = following
        for start in range(full, end, KEYS):
            coming = start + KEYS + piece
            following = tl.load(table + coming // BLOCK, mask=coming < end, other=0)
            best, total, result = attend(
                queries, k_cache, v_cache, blocks, start, position, end, window, scale, best, total, result,
                block_stride, token_stride, D, DP, KEYS, BLOCK, PIECES, ALIGN, True, WINDOW,
            )  # fmt: skip
            blocks = following
        result = result / tl.where(total > 0, total, 1.0)[:, None]  # a window hides all keys of the rows beyond the chunk
        tl.store(out + token * (Hq * D) + head * D + dim[None, :], result.to(out.dtype.element_ty), mask=mask)


def chunk_attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None, out: torch.Tensor) -> None:
    """The batch's sequences of more than one new token: their rows of q [T, Hq, D] over their pages, into those of `out`."""
    (T, Hq, D), (_, block_size, Hkv, _), rows = q.shape, kv[0].shape, batch.num_seqs
    padded = padded_head(D)
    block_stride, token_stride, head_stride = strides(kv)
    tile = QUERIES if padded * q.element_size() <= 256 else 32
    chunks[(Hq, T // tile + min(rows, T // 2))](
        q, *kv, out, batch.query_start, batch.context_lens, batch.block_tables, rows, scale * LOG2E, window or 0,
        q.stride(0), batch.block_tables.stride(0), block_stride, token_stride, head_stride,
        Hq=Hq, Hkv=Hkv, D=D, DP=padded, BLOCK=block_size, ROWS=triton.next_power_of_2(rows), QUERIES=tile, KEYS=tile,
        PIECES=pieces(tile, block_size), ALIGN=math.gcd(16, block_stride), WINDOW=window is not None,
        num_warps=4, num_stages=min(3, max(1, 1024 // (padded * q.element_size()))),
    )  # fmt: skip
