"""Attention in Triton for every batch: decode rows as in `triton_decode`, prefill chunks by flash attention over their pages.

Layouts of `prefill`
    q, out  [T, Hq, D]        sequence b owns rows query_start[b] .. query_start[b + 1], the last ones of its context
    copy    [2 P, Hkv, DP]    the chunks' pages, copied one sequence after another by `gather`: P rows of keys, then P of values;
                              heads are filled up to DP with zeros, and each sequence to a multiple of PAD rows, so that no tile
                              crosses into the next sequence

A launch takes neighbouring sequences, from `first` on. Grid of `gather`: (Hkv, tiles of the longest context, sequences). Grid of
`prefill`: (Hq, tiles of the longest chunk, sequences), the last tiles first, since they see the most keys. A program keeps QUERIES
rows of one head and runs over the keys they see. Only the tiles on the diagonal (and at a window's edge) need a mask.

Copying the pages first lets the kernel fetch whole tiles with the card's copy engine (tensor descriptors), which for long prompts is
worth more than the copy costs. Before Hopper, which has no such engine, the same loop reads the copied rows with plain loads.
Source: Dao, "FlashAttention-2", 2023.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from minfer.attention.triton_chunks import chunk_attention
from minfer.attention.triton_decode import LOG2E, decode_attention, padded_head
from minfer.attention.triton_tiles import card, tiles
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}

PAD = 128  # a multiple of TOKENS and of every tile's keys
TOKENS = 64  # that a program of `gather` copies
MAX_ROWS = 1 << 16  # rows copied at once, which bounds their memory; chunks beyond that wait for the next launch


@triton.jit
def begin_of(context_lens, first, chunk, PAD: tl.constexpr):
    """The row of `copy` where a chunk's keys begin: the chunks before it, each filled up to a multiple of PAD."""
    row = 0
    for start in range(first, chunk, 128):
        before = start + tl.arange(0, 128)
        row += tl.sum(tl.cdiv(tl.load(context_lens + before, mask=before < chunk, other=0), PAD) * PAD, 0)
    return row


# Sizes that change from step to step must not make Triton compile the kernels anew.
@triton.jit(do_not_specialize=["first", "rows", "table_row"])
def gather(
    k_cache, v_cache, copy, block_tables, context_lens, first, rows, table_row, block_stride, token_stride, head_stride,
    D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr, TOKENS: tl.constexpr, PAD: tl.constexpr,
):  # fmt: skip
    head, tile, chunk = tl.program_id(0), tl.program_id(1), first + tl.program_id(2)
    context = tl.load(context_lens + chunk)
    if tile * TOKENS < tl.cdiv(context, PAD) * PAD:
        token, dim = tile * TOKENS + tl.arange(0, TOKENS), tl.arange(0, DP)
        ok = token < context
        table = block_tables + chunk.to(tl.int64) * table_row
        blocks = tl.load(table + token // BLOCK, mask=ok, other=0).to(tl.int64)
        at = (blocks * block_stride + (token % BLOCK) * token_stride + head * head_stride)[:, None] + dim[None, :]
        row = (begin_of(context_lens, first, chunk, PAD) + token).to(tl.int64)
        width = tl.num_programs(0) * DP
        to = copy + (row * width + head * DP)[:, None] + dim[None, :]
        mask = ok[:, None]
        if D < DP:
            mask = mask & (dim < D)[None, :]
        tl.store(to, tl.load(k_cache + at, mask=mask, other=0.0))
        tl.store(to + rows.to(tl.int64) * width, tl.load(v_cache + at, mask=mask, other=0.0))


@triton.jit
def fetch(copy, row, column, width, KEYS: tl.constexpr, DP: tl.constexpr, ENGINE: tl.constexpr):
    """KEYS rows of one head from `row` on, [KEYS, DP]: by the copy engine from a descriptor, else by plain loads."""
    if ENGINE:
        tile = copy.load([row, column])
    else:
        rows = (row + tl.arange(0, KEYS)).to(tl.int64)
        tile = tl.load(copy + (rows * width + column)[:, None] + tl.arange(0, DP)[None, :])
    return tile


@triton.jit
def attend(
    queries, copy, start, key_row, value_row, column, width, position, window, scale, best, total, result,
    KEYS: tl.constexpr, DP: tl.constexpr, MASK: tl.constexpr, WINDOW: tl.constexpr, ENGINE: tl.constexpr,
):  # fmt: skip
    """One tile of the online softmax, in base 2: the keys from position `start` on. MASK: not all queries see all of them."""
    k = fetch(copy, key_row + start, column, width, KEYS, DP, ENGINE)
    v = fetch(copy, value_row + start, column, width, KEYS, DP, ENGINE)
    scores = tl.dot(queries, tl.trans(k), input_precision="ieee")
    if MASK:
        key = start + tl.arange(0, KEYS)[None, :]
        seen = key <= position[:, None]
        if WINDOW:
            # ch11 task3: of these, the last `window` keys up to the query's own
            seen = seen & (key > position[:, None] - window)
            # end of ch11 task3
        scores = tl.where(seen, scores, float("-inf"))
    # ch11 task2: one step of the online softmax in base 2; a query that has seen no key yet must not give NaN
    better = tl.maximum(best, tl.max(scores, 1) * scale)
    top = better
    if WINDOW:
        top = tl.where(better == float("-inf"), 0.0, better)  # a query whose first key is in a later tile
    weights = tl.exp2(scores * scale - top[:, None])
    fade = tl.exp2(best - top)
    total = total * fade + tl.sum(weights, 1)
    result = tl.dot(weights.to(v.dtype), v, result * fade[:, None], input_precision="ieee")
    return better, total, result
    # end of ch11 task2


@triton.jit(do_not_specialize=["first", "rows"])
def prefill(
    q, copy, out, query_start, context_lens, first, rows, scale, window, q_row,
    Hq: tl.constexpr, Hkv: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
    PAD: tl.constexpr, WINDOW: tl.constexpr, ENGINE: tl.constexpr,
):  # fmt: skip
    head, chunk = tl.program_id(0), first + tl.program_id(2)
    tile = tl.num_programs(1) - 1 - tl.program_id(1)
    query_0 = tl.load(query_start + chunk)
    num_queries = tl.load(query_start + chunk + 1) - query_0
    if tile * QUERIES < num_queries:
        context, key_row = tl.load(context_lens + chunk), begin_of(context_lens, first, chunk, PAD)
        value_row = rows + key_row
        width, column = Hkv * DP, (head // (Hq // Hkv)) * DP
        query, dim = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DP)
        position = context - num_queries + query
        token = (query_0 + query).to(tl.int64)[:, None]
        mask = (query < num_queries)[:, None] & (dim < D)[None, :]
        queries = tl.load(q + token * q_row + head * D + dim[None, :], mask=mask, other=0.0)

        oldest = context - num_queries + tile * QUERIES  # position of the tile's first query
        end = tl.minimum(oldest + QUERIES, context)
        best = tl.full([QUERIES], float("-inf"), tl.float32)
        total = tl.zeros([QUERIES], tl.float32)
        result = tl.zeros([QUERIES, DP], tl.float32)
        free = 0  # from here on no window hides a key; up to `diagonal` all queries see all keys
        if WINDOW:
            # ch11 task3: begin at the first tile with a key in the window; `free` is where the window hides no key any more
            begin = tl.maximum(oldest - window + 1, 0) // KEYS * KEYS
            free = tl.minimum(tl.cdiv(tl.maximum(end - window, 0), KEYS) * KEYS, end)
            for start in range(begin, free, KEYS):
                best, total, result = attend(
                    queries, copy, start, key_row, value_row, column, width, position, window, scale, best, total, result,
                    KEYS, DP, True, WINDOW, ENGINE,
                )  # fmt: skip
            # end of ch11 task3
        # ch11 task2: whole tiles up to the diagonal without a mask, then those on it with one
        diagonal = tl.maximum((oldest + 1) // KEYS * KEYS, free)
        for start in range(free, diagonal, KEYS):
            best, total, result = attend(
                queries, copy, start, key_row, value_row, column, width, position, window, scale, best, total, result,
                KEYS, DP, False, WINDOW, ENGINE,
            )  # fmt: skip
        for start in range(diagonal, end, KEYS):
            best, total, result = attend(
                queries, copy, start, key_row, value_row, column, width, position, window, scale, best, total, result,
                KEYS, DP, True, WINDOW, ENGINE,
            )  # fmt: skip
        # end of ch11 task2
        result = result / tl.where(total > 0, total, 1.0)[:, None]  # a window hides all keys of the rows beyond the chunk
        tl.store(out + token * (Hq * D) + head * D + dim[None, :], result.to(out.dtype.element_ty), mask=mask)


def launches(contexts: list[int], begin: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """Neighbours from `begin` on whose copies together stay within `limit` rows, a longer one alone → (first, last + 1, rows)."""
    first, rows = begin, 0
    for chunk in range(begin, len(contexts)):
        padded = -(-contexts[chunk] // PAD) * PAD
        if chunk > first and rows + padded > limit:
            yield first, chunk, rows
            first, rows = chunk, 0
        rows += padded
    yield first, len(contexts), rows


def prefill_attention(q: torch.Tensor, kv: KV, batch: Batch, begin: int, scale: float, window: int | None, out: torch.Tensor) -> None:
    """The batch's sequences from `begin` on: their rows of q [T, Hq, D] over their pages, into those of the contiguous `out`."""
    (_, Hq, D), (_, block_size, Hkv, _) = q.shape, kv[0].shape
    padded = padded_head(D)
    limits = card(q.device)
    block_tables, context_lens = batch.block_tables, batch.context_lens
    for first, last, rows in launches(batch.contexts, begin, MAX_ROWS):
        copy = torch.empty(2 * rows, Hkv * padded, dtype=q.dtype, device=q.device)
        gather[(Hkv, triton.cdiv(max(batch.contexts[first:last]), PAD) * (PAD // TOKENS), last - first)](
            *kv, copy, block_tables, context_lens, first, rows, block_tables.stride(0), *strides(kv),
            D=D, DP=padded, BLOCK=block_size, TOKENS=TOKENS, PAD=PAD, num_warps=4,
        )  # fmt: skip
        longest = max(batch.query_lens[first:last])
        size = tiles(longest, padded * q.element_size(), limits.shared_memory, q.dtype != torch.float32)
        if limits.has_copy_engine:
            copy = TensorDescriptor.from_tensor(copy, [size.keys, padded])
        prefill[(Hq, triton.cdiv(longest, size.queries), last - first)](
            q, copy, out, batch.query_start, context_lens, first, rows, scale * LOG2E, window or 0, q.stride(0),
            Hq=Hq, Hkv=Hkv, D=D, DP=padded, QUERIES=size.queries, KEYS=size.keys, PAD=PAD,
            WINDOW=window is not None, ENGINE=limits.has_copy_engine, num_warps=size.warps, num_stages=size.stages,
        )  # fmt: skip


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. q's heads lie side by side: its strides are (anything, D, 1)."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if batch.decode_lens is not None:  # a recorded mixed step: which rows are decodes, the device knows
        decodes = replace(batch, context_lens=batch.decode_lens)
        decode_attention(q, kv, decodes, min(batch.num_seqs, len(q)), scale, window, out)
        chunk_attention(q, kv, batch, scale, window, out)  # also over what the decodes left in its rows
        return out
    # ch11 task1: decode rows by decode_attention, the sequences behind them by prefill_attention, both into `out`
    if batch.num_decode:
        decode_attention(q, kv, batch, batch.num_decode, scale, window, out)
    if batch.num_decode < batch.num_seqs:
        prefill_attention(q, kv, batch, batch.num_decode, scale, window, out)
    return out
    # end of ch11 task1
