"""Attention in Triton for every batch: decode rows as in `triton_decode`, prefill chunks by flash attention over their pages.

Layouts of `prefill`
    q, out        [T, Hq, D]         chunk b owns rows query_start[b] .. query_start[b + 1], the last ones of its context
    keys, values  [P, Hkv, DP]       the chunks' pages, copied one sequence after another by `gather`; heads filled up to DP with
                                     zeros, and each sequence to a multiple of PAD rows, so that no tile crosses into the next one

Grid of `gather`: (tiles of the longest context, Hkv, B). Grid of `prefill`: (Hq, tiles of the longest chunk, B), the last tiles
first, since they see the most keys. A program keeps QUERIES rows of one head and runs over the keys they see. Only the tiles on the
diagonal (and at a window's edge) need a mask.

Copying the pages first costs 2 % of the time of a long prefill, and lets the kernel fetch whole tiles with the card's copy engine
(tensor descriptors): a fifth faster than looking pages up in the loop. Before Hopper, which has no such engine, the same loop reads
the copied rows with plain loads. Source: Dao, "FlashAttention-2", 2023.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from minfer.attention.triton_decode import LOG2E, decode_attention, strides
from minfer.parts import KV
from minfer.types import Batch

needs = {"cuda", "triton"}

PAD = 128  # a multiple of every tile's keys
MAX_ROWS = 1 << 16  # rows copied at once, which bounds their memory; chunks beyond that wait for the next launch


@triton.jit
def first_row(context_lens, chunk, PAD: tl.constexpr):
    """The row of `keys` where a chunk begins: the chunks before it, each filled up to a multiple of PAD."""
    row = 0
    for start in range(0, chunk, 128):
        before = start + tl.arange(0, 128)
        row += tl.sum(tl.cdiv(tl.load(context_lens + before, mask=before < chunk, other=0), PAD) * PAD, 0)
    return row


@triton.jit
def gather(
    k_cache, v_cache, keys, values, block_tables, context_lens, table_row, block_stride, token_stride, head_stride,
    D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, TOKENS: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    tile, head, chunk = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    context = tl.load(context_lens + chunk)
    if tile * TOKENS < tl.cdiv(context, PAD) * PAD:
        token, dim = tile * TOKENS + tl.arange(0, TOKENS), tl.arange(0, DP)
        ok = token < context
        table = block_tables + chunk.to(tl.int64) * table_row
        blocks = tl.load(table + token // BLOCK, mask=ok, other=0).to(tl.int64)
        at = (blocks * block_stride + (token % BLOCK) * token_stride + head * head_stride)[:, None] + dim[None, :]
        row = (first_row(context_lens, chunk, PAD) + token).to(tl.int64)
        to = (row * (tl.num_programs(1) * DP) + head * DP)[:, None] + dim[None, :]
        mask = ok[:, None]
        if D < DP:
            mask = mask & (dim < D)[None, :]
        tl.store(keys + to, tl.load(k_cache + at, mask=mask, other=0.0))
        tl.store(values + to, tl.load(v_cache + at, mask=mask, other=0.0))


@triton.jit
def fetch(source, row, column, width, KEYS: tl.constexpr, DP: tl.constexpr, ENGINE: tl.constexpr):
    """KEYS rows of one head from `row` on, [KEYS, DP]: by the copy engine from a descriptor, else by plain loads."""
    if ENGINE:
        tile = source.load([row, column])
    else:
        rows = (row + tl.arange(0, KEYS)).to(tl.int64)
        tile = tl.load(source + (rows * width + column)[:, None] + tl.arange(0, DP)[None, :])
    return tile


@triton.jit
def attend(
    queries, keys, values, start, row, column, width, position, window, scale, best, total, result,
    KEYS: tl.constexpr, DP: tl.constexpr, MASK: tl.constexpr, WINDOW: tl.constexpr, ENGINE: tl.constexpr,
):  # fmt: skip
    """One tile of the online softmax, in base 2: the keys from position `start` on, of which row by row some may be masked."""
    k = fetch(keys, row + start, column, width, KEYS, DP, ENGINE)
    v = fetch(values, row + start, column, width, KEYS, DP, ENGINE)
    scores = tl.dot(queries, tl.trans(k), input_precision="ieee")
    if MASK:
        key = start + tl.arange(0, KEYS)[None, :]
        seen = key <= position[:, None]
        if WINDOW:
            seen = seen & (key > position[:, None] - window)
        scores = tl.where(seen, scores, float("-inf"))
    better = tl.maximum(best, tl.max(scores, 1) * scale)
    top = better
    if WINDOW:
        top = tl.where(better == float("-inf"), 0.0, better)  # a row of the tile has not come to its first key yet
    weights = tl.exp2(scores * scale - top[:, None])
    fade = tl.exp2(best - top)
    total = total * fade + tl.sum(weights, 1)
    result = tl.dot(weights.to(v.dtype), v, result * fade[:, None], input_precision="ieee")
    return better, total, result


@triton.jit
def prefill(
    q, keys, values, out, query_start, context_lens, scale, window, q_row,
    Hq: tl.constexpr, Hkv: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    PAD: tl.constexpr, WINDOW: tl.constexpr, ENGINE: tl.constexpr,
):  # fmt: skip
    head, chunk = tl.program_id(0), tl.program_id(2)
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    query_0 = tl.load(query_start + chunk)
    num_queries = tl.load(query_start + chunk + 1) - query_0
    if tile * QUERIES < num_queries:
        context, row = tl.load(context_lens + chunk), first_row(context_lens, chunk, PAD)
        width, column = Hkv * DP, (head // (Hq // Hkv)) * DP
        query, dim = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DP)
        position = context - num_queries + query
        token = (query_0 + query).to(tl.int64)[:, None]
        mask = (query < num_queries)[:, None] & (dim < D)[None, :]
        queries = tl.load(q + token * q_row + head * D + dim[None, :], mask=mask, other=0.0)

        first = context - num_queries + tile * QUERIES  # position of the tile's first query
        end = tl.minimum(first + QUERIES, context)
        best = tl.full([QUERIES], float("-inf"), tl.float32)
        total = tl.zeros([QUERIES], tl.float32)
        result = tl.zeros([QUERIES, DP], tl.float32)
        free = 0  # from here on no window hides a key; up to `diagonal` all queries see all keys
        if WINDOW:
            begin = tl.maximum(first - window + 1, 0) // KEYS * KEYS
            free = tl.minimum(tl.cdiv(tl.maximum(end - window, 0), KEYS) * KEYS, end)
            for start in range(begin, free, KEYS):
                best, total, result = attend(
                    queries, keys, values, start, row, column, width, position, window, scale, best, total, result,
                    KEYS, DP, True, WINDOW, ENGINE,
                )  # fmt: skip
        diagonal = tl.maximum((first + 1) // KEYS * KEYS, free)
        for start in range(free, diagonal, KEYS):
            best, total, result = attend(
                queries, keys, values, start, row, column, width, position, window, scale, best, total, result,
                KEYS, DP, False, WINDOW, ENGINE,
            )  # fmt: skip
        for start in range(diagonal, end, KEYS):
            best, total, result = attend(
                queries, keys, values, start, row, column, width, position, window, scale, best, total, result,
                KEYS, DP, True, WINDOW, ENGINE,
            )  # fmt: skip
        result = result / tl.where(total > 0, total, 1.0)[:, None]  # a window hides all keys of the rows beyond the chunk
        tl.store(out + token * (Hq * D) + head * D + dim[None, :], result.to(out.dtype.element_ty), mask=mask)


class Card(NamedTuple):
    """What a kernel must know of the device."""

    has_copy_engine: bool  # Hopper and later
    shared_memory: int  # bytes that a program may have


@functools.cache
def card(device: torch.device) -> Card:
    if device.type != "cuda":
        return Card(False, 1 << 16)  # Triton's interpreter
    properties = torch.cuda.get_device_properties(device)
    return Card(properties.major >= 9, properties.shared_memory_per_block_optin)


class Tiles(NamedTuple):
    """How a program works: queries it keeps, keys it takes at a time, warps, and how many tiles of keys are in flight."""

    queries: int
    keys: int
    warps: int
    stages: int


def tiles(max_query: int, row_bytes: int, shared_memory: int) -> Tiles:
    """row_bytes: of one head. Large tiles pay in long prompts; narrow ones are what fits with large heads or float32."""
    queries, keys, warps = (128, 128, 8) if max_query >= 4096 else (64, 64, 4)
    if row_bytes > 256:
        queries, keys, warps = 32, 32, 4
    stages = (shared_memory // row_bytes - queries) // (2 * keys)
    if stages < 2 and keys > 32:
        return tiles(min(max_query, 4095), 2 * row_bytes, shared_memory)
    return Tiles(queries, keys, warps, max(1, min(3, stages)))
