# Chapter 11, Prefill over pages. Edit this file: it is your attention for the slot attention.
#
#   task1, 2 points: Two kinds of rows
#   task2, 5 points: Whole tiles, then the diagonal
#   task3, 3 points: Windows
#
#   minfer check ch11              what is right so far, and your points
#   minfer check ch11 -k task1     one task only
#   minfer hint ch11 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 3419e196.

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

from dataclasses import replace

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from minfer.attention.triton_chunks import chunk_attention
from minfer.attention.triton_decode import LOG2E, decode_attention, padded_head
from minfer.attention.triton_paged import MAX_ROWS, PAD, TOKENS, begin_of, fetch, gather, launches
from minfer.attention.triton_tiles import card, tiles
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}


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
            tl.static_assert(False, "ch11 task3: of these, the last `window` keys up to the query's own")
        scores = tl.where(seen, scores, float("-inf"))
    # ch11 task2: one step of the online softmax in base 2; a query that has seen no key yet must not give NaN
    tl.static_assert(False, "ch11 task2: one step of the online softmax in base 2; a query that has seen no key yet must not give NaN")


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
            tl.static_assert(False, "ch11 task3: begin at the first tile with a key in the window; `free` is where the window ...")
        # ch11 task2: whole tiles up to the diagonal without a mask, then those on it with one
        tl.static_assert(False, "ch11 task2: whole tiles up to the diagonal without a mask, then those on it with one")
        result = result / tl.where(total > 0, total, 1.0)[:, None]  # a window hides all keys of the rows beyond the chunk
        tl.store(out + token * (Hq * D) + head * D + dim[None, :], result.to(out.dtype.element_ty), mask=mask)


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
    raise NotImplementedError(
        "ch11 task1: decode rows by decode_attention, the sequences behind them by prefill_attention, both into `out`"
    )
