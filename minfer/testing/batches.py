"""Batches and caches made by hand, so that a part or the model can be tested without an engine."""

from __future__ import annotations

import random

import torch

from minfer.parts import KV
from minfer.types import Batch, SamplingTensors

LAYOUTS = ("contiguous", "k and v of a block side by side", "heads before tokens")
FAR = "blocks far apart"  # the last one begins beyond 2³¹ elements, as in a large cache


def make_cache(
    num_blocks: int,
    block_size: int,
    kv_heads: int,
    head_dim: int,
    dtype: torch.dtype,
    layout: str = "contiguous",
    device: str = "cpu",
) -> KV:
    """One layer's K and V, [num_blocks, block_size, kv_heads, head_dim] each, full of NaN: reading too much shows.

    With the layout FAR both lie in one piece of 4 to 6 GB in half precision. What is never touched takes no memory on a CPU.
    """

    def full(*shape: int) -> torch.Tensor:
        return torch.full((*shape, head_dim), float("nan"), dtype=dtype, device=device)

    if layout == FAR:
        return _make_far_cache((num_blocks, block_size, kv_heads, head_dim), dtype, device)
    if layout == "contiguous":
        both = full(2, num_blocks, block_size, kv_heads)
    elif layout == "k and v of a block side by side":
        both = full(num_blocks, 2, block_size, kv_heads).transpose(0, 1)
    else:
        both = full(2, num_blocks, kv_heads, block_size).transpose(2, 3)
    return both[0], both[1]


def _make_far_cache(shape: tuple[int, int, int, int], dtype: torch.dtype, device: str) -> KV:
    """K and V of a block side by side, and so much room between blocks that the last one is beyond 2³¹ elements."""
    num_blocks, block_size, kv_heads, head_dim = shape
    size = block_size * kv_heads * head_dim
    apart = max(2 * size, (2**31 // (num_blocks - 1) // 64 + 1) * 64)
    room = torch.empty(num_blocks * apart, dtype=dtype, device=device)
    strides = (apart, kv_heads * head_dim, head_dim, 1)
    k, v = (room.as_strided(shape, strides, first).fill_(float("nan")) for first in (0, size))
    return k, v


def scattered_tables(lengths: list[int], block_size: int, seed: int = 0) -> tuple[list[list[int]], int]:
    """A block table for each sequence, pages in random order and block 0 left out → (tables, number of blocks)."""
    needed = [-(-length // block_size) for length in lengths]
    blocks = list(range(1, sum(needed) + 3))
    random.Random(seed).shuffle(blocks)
    return [[blocks.pop() for _ in range(count)] for count in needed], sum(needed) + 3


def make_batch(
    works: list[tuple[list[int], int]],
    tables: list[list[int]],
    block_size: int,
    prompt_lens: list[int] | None = None,
    device: str = "cpu",
) -> Batch:
    """A batch from (new token ids, how many tokens are in the cache before them), one per sequence; single tokens come first.

    A work of one token whose start is -1 is a padding row: context 0, slot 0. Every sequence's last new token is sampled,
    greedily. prompt_lens matter to dynamic RoPE only, and default to the context.
    """
    query_lens = [len(ids) for ids, _ in works]
    contexts = [start + len(ids) for ids, start in works]
    prompts = prompt_lens or contexts
    places = [(row, start + i) for row, (ids, start) in enumerate(works) for i in range(len(ids))]
    slots = [0 if at < 0 else tables[row][at // block_size] * block_size + at % block_size for row, at in places]
    width = max(1, max(len(table) for table in tables))
    ends = torch.tensor(query_lens).cumsum(0)

    def tensor(values: list, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    rows = len(works)
    neutral = SamplingTensors(
        temperature=torch.zeros(rows, device=device),
        top_k=torch.full((rows,), 2**31, device=device),
        top_p=torch.ones(rows, device=device),
        min_p=torch.zeros(rows, device=device),
        seeds=tensor([0] * rows),
        positions=tensor(contexts),
        all_greedy=True,
        any_filter=False,
        edits=[],
    )
    return Batch(
        token_ids=tensor([token for ids, _ in works for token in ids]),
        positions=tensor([max(at, 0) for _, at in places]),
        slots=tensor(slots),
        query_start=tensor([0, *ends.tolist()], torch.int32),
        context_lens=tensor(contexts, torch.int32),
        block_tables=tensor([table + [0] * (width - len(table)) for table in tables], torch.int32),
        sample_at=tensor((ends - 1).tolist()),
        rows=tensor(list(range(rows))),
        rope_lens=tensor([max(prompts[row], at + 1) for row, at in places]),
        num_decode=next((row for row, queries in enumerate(query_lens) if queries > 1), rows),
        max_query=max(query_lens),
        max_context=max(contexts),
        query_lens=query_lens,
        contexts=contexts,
        sampling=neutral,
    )
