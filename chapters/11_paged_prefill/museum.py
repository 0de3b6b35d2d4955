"""Bug museum, chapter 11: attention with one fault of a kind that engines have had. Find it before you read on.

    minfer check attention --part chapters/11_paged_prefill/museum.py:attention

Its kernel is shorter than the chapter's: it reads the pages itself, and puts a mask on every tile.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from minfer.attention.triton_decode import LOG2E, decode_attention, padded_head
from minfer.parts import KV
from minfer.types import Batch
from minfer.write_kv.layout import strides

needs = {"cuda", "triton"}

QUERIES, KEYS = 32, 32


@triton.jit(do_not_specialize=["first", "table_row"])
def prefill(
    q, k_cache, v_cache, out, query_start, context_lens, block_tables, first, scale, window,
    q_row, table_row, block_stride, token_stride, head_stride,
    Hq: tl.constexpr, G: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BLOCK: tl.constexpr,
    QUERIES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    head, tile, chunk = tl.program_id(0), tl.program_id(1), first + tl.program_id(2)
    query_0 = tl.load(query_start + chunk)
    num_queries = tl.load(query_start + chunk + 1) - query_0
    if tile * QUERIES < num_queries:
        context = tl.load(context_lens + chunk)
        query, dim = tile * QUERIES + tl.arange(0, QUERIES), tl.arange(0, DP)
        position = context - num_queries + query
        token = (query_0 + query).to(tl.int64)[:, None]
        mask = (query < num_queries)[:, None] & (dim < D)[None, :]
        queries = tl.load(q + token * q_row + head * D + dim[None, :], mask=mask, other=0.0)
        table = block_tables + chunk.to(tl.int64) * table_row
        k_cache += (head // G) * head_stride
        v_cache += (head // G) * head_stride

        oldest = context - num_queries + tile * QUERIES
        best = tl.full([QUERIES], float("-inf"), tl.float32)
        total = tl.zeros([QUERIES], tl.float32)
        result = tl.zeros([QUERIES, DP], tl.float32)
        for start in range(tl.maximum(oldest - window + 1, 0) // KEYS * KEYS, tl.minimum(oldest + QUERIES, context), KEYS):
            key = start + tl.arange(0, KEYS)
            ok = key < context
            blocks = tl.load(table + key // BLOCK, mask=ok, other=0).to(tl.int64)
            at = (blocks * block_stride + (key % BLOCK) * token_stride)[:, None] + dim[None, :]
            in_cache = ok[:, None] & (dim < D)[None, :]
            k = tl.load(k_cache + at, mask=in_cache, other=0.0)
            v = tl.load(v_cache + at, mask=in_cache, other=0.0)
            scores = tl.dot(queries, tl.trans(k), input_precision="ieee") * scale
            seen = (key[None, :] <= position[:, None]) & (key[None, :] > position[:, None] - window)
            scores = tl.where(seen, scores, float("-inf"))
            better = tl.maximum(best, tl.max(scores, 1))
            weights = tl.exp2(scores - better[:, None])
            fade = tl.exp2(best - better)
            total = total * fade + tl.sum(weights, 1)
            result = result * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision="ieee")
            best = better
        tl.store(out + token * (Hq * D) + head * D + dim[None, :], (result / total[:, None]).to(out.dtype.element_ty), mask=mask)


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. q's heads lie side by side: its strides are (anything, D, 1)."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    first = batch.num_decode
    if first:
        decode_attention(q, kv, batch, first, scale, window, out)
    if first < batch.num_seqs:
        (_, Hq, D), (_, block_size, Hkv, _) = q.shape, kv[0].shape
        tiles = triton.cdiv(max(batch.query_lens[first:]), QUERIES)
        prefill[(Hq, tiles, batch.num_seqs - first)](
            q, *kv, out, batch.query_start, batch.context_lens, batch.block_tables, first, scale * LOG2E, window or 1 << 30,
            q.stride(0), batch.block_tables.stride(0), *strides(kv),
            Hq=Hq, G=Hq // Hkv, D=D, DP=padded_head(D), BLOCK=block_size, QUERIES=QUERIES, KEYS=KEYS,
        )  # fmt: skip
    return out
