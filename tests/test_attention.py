"""Slot `attention`: every part equals the float64 reference on mixed batches, and reads no slot that is not the row's own."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st

from minfer.attention.torch import attention as torch_attention
from minfer.attention.torch import find_rows
from minfer.parts import KV
from minfer.testing import reference
from minfer.testing.batches import LAYOUTS, make_batch, make_cache, scattered_tables
from minfer.types import Batch

PARTS = {"torch": torch_attention}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@st.composite
def rows(draw, block_size: int) -> list[tuple[int, int]]:
    """(new tokens, context) of each sequence: padding rows and decodes first, then chunks; contexts crowd around page edges."""
    edges = sorted({1, *(max(1, pages * block_size + step) for pages in (1, 2) for step in (-1, 0, 1))})
    context = st.one_of(st.sampled_from(edges), st.integers(1, 40))
    decodes = [(1, draw(st.one_of(st.just(0), context, context, context))) for _ in range(draw(st.integers(0, 4)))]
    chunks = []
    for _ in range(draw(st.integers(0 if decodes else 1, 2))):
        total = max(2, draw(context))
        chunks.append((draw(st.integers(2, total)), total))
    return decodes + chunks


def fill(works: list[tuple[int, int]], heads: tuple[int, int], D: int, block_size: int, dtype, layout: str, seed: int):
    """(q, kv, batch): K and V of the rows' contexts are random, everything else in the cache is NaN."""
    random = torch.Generator().manual_seed(seed)
    tables, blocks = scattered_tables([context for _, context in works], block_size, seed)
    kv = make_cache(blocks, block_size, heads[1], D, dtype, layout)
    for table, (_, context) in zip(tables, works, strict=True):
        for at in range(context):
            for cache in kv:
                cache[table[at // block_size], at % block_size] = torch.randn(heads[1], D, generator=random).to(dtype)
    batch = make_batch([([0] * new, context - new) for new, context in works], tables, block_size)
    return torch.randn(len(batch.token_ids), heads[0], D, generator=random).to(dtype), kv, batch


def check(
    attention, q: torch.Tensor, kv: KV, batch: Batch, window: int | None = None, scale: float = 0.25, slack: float = 1.0
) -> torch.Tensor:
    before = [cache.clone() for cache in kv]
    expected = reference.attention(q, kv, batch, scale, window)
    out = attention(q.clone(), kv, batch, scale, window)
    assert out.dtype == q.dtype
    reference.assert_close(out, expected, slack)
    for cache, old in zip(kv, before, strict=True):
        assert torch.equal(cache.nan_to_num(7), old.nan_to_num(7)), "attention wrote into the cache"
    return out


@pytest.mark.parametrize("attention", PARTS.values(), ids=PARTS)
@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_attention_equals_the_reference(attention, data):
    """Any mix of decodes, chunks and padding; head sizes, groups, page sizes, windows, layouts and dtypes."""
    block_size = data.draw(st.sampled_from([1, 2, 3, 8, 16, 64]), "block_size")
    works = data.draw(rows(block_size), "rows: (new, context)")
    heads = data.draw(st.sampled_from([(1, 1), (2, 2), (2, 1), (3, 1), (9, 3), (4, 1), (7, 1), (8, 1), (16, 2)]), "heads")
    D = data.draw(st.sampled_from([4, 8, 24, 64, 80, 96, 128]), "D")
    dtype = data.draw(st.sampled_from(DTYPES), "dtype")
    window = data.draw(st.one_of(st.none(), st.integers(1, 45)), "window")
    layout = data.draw(st.sampled_from(LAYOUTS), "layout")
    q, kv, batch = fill(works, heads, D, block_size, dtype, layout, data.draw(st.integers(0, 99), "seed"))
    event(f"decodes {batch.num_decode > 0}, chunks {batch.num_decode < batch.num_seqs}, window {window is not None}")
    check(attention, q, kv, batch, window, data.draw(st.sampled_from([D**-0.5, 0.1]), "scale"))


@pytest.mark.parametrize("attention", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("works", [[(1, 0)], [(1, 0), (1, 0)], [(1, 9), (1, 0), (1, 3)], [(1, 0), (4, 6)]])
def test_padding_rows_give_zeros(attention, works):
    """A row of context 0 sees nothing: zeros, no NaN, whatever its neighbours are; its block 0 is full of NaN."""
    q, kv, batch = fill(works, (4, 2), 8, 4, torch.float32, "contiguous", 0)
    out = check(attention, q, kv, batch)
    for row, (_, context) in enumerate(works):
        if context == 0:
            assert torch.equal(out[row], torch.zeros(4, 8))


@pytest.mark.parametrize("attention", PARTS.values(), ids=PARTS)
@settings(deadline=None, max_examples=20)
@given(works=rows(4), window=st.one_of(st.none(), st.integers(1, 20)), seed=st.integers(0, 99))
def test_a_row_depends_on_no_other(attention, works, window, seed):
    """Each row alone gives what it gives in the batch, however wide the others make the block table."""
    q, kv, batch = fill(works, (6, 2), 16, 4, torch.float32, "contiguous", seed)
    together = check(attention, q, kv, batch, window)
    for row, (new, context) in enumerate(works):
        begin, end = batch.query_start[row], batch.query_start[row + 1]
        alone = make_batch([([0] * new, context - new)], [batch.block_tables[row].tolist()], 4)
        out = attention(q[begin:end].clone(), kv, alone, 0.25, window)
        reference.assert_close(out, together[begin:end].double(), slack=2)


@pytest.mark.parametrize("attention", PARTS.values(), ids=PARTS)
def test_wide_table_and_large_numbers(attention):
    """Columns of the table beyond the context may hold anything that is a block; large scores must not overflow."""
    q, kv, batch = fill([(1, 5), (1, 2), (3, 7)], (4, 2), 8, 4, torch.float32, "contiguous", 1)
    wide = torch.cat((batch.block_tables, torch.zeros(3, 5, dtype=torch.int32)), dim=1)
    check(attention, q, kv, replace(batch, block_tables=wide))
    check(attention, q * 300, kv, replace(batch, block_tables=wide), slack=300)  # as the scores grow, so do their errors


@pytest.mark.parametrize("attention", PARTS.values(), ids=PARTS)
def test_one_block_a_sequence(attention):
    """Contiguous storage is paging with one page: a block much longer than the context is read only as far as it is filled."""
    q, kv, batch = fill([(1, 5), (1, 33), (6, 11)], (4, 2), 8, 256, torch.float32, "contiguous", 1)
    check(attention, q, kv, batch)


def test_rows_of_a_large_cache_need_64_bits():
    """A row number beyond 2³¹ does not wrap around."""
    cache = torch.empty(1, 1, 1, 1).expand(2**24, 256, 2, 1)  # no memory behind it
    rows = find_rows(torch.tensor([[255]]), torch.tensor([[2**24 - 1]], dtype=torch.int32), cache)
    assert rows.tolist() == [(2**24 - 1) * 256 * 2 + 255 * 2 + head for head in range(2)]
