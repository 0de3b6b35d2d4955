"""Cases of the slot `attention`: rows with their contexts, and the query, cache and batch that are made of them.

From: hypothesis. To: `minfer/testing/suites/attention.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from minfer.parts import KV
from minfer.testing.batches import LAYOUTS, make_batch, make_cache, scattered_tables
from minfer.testing.properties import Case, Place, device_of, dtype_of
from minfer.types import Batch

GROUPS = [1, 2, 3, 4, 7, 8]
EDGES = [edge + step for edge in (32, 64, 128, 256) for step in (-1, 0, 1)]


@st.composite
def cases(
    draw: st.DrawFn,
    place: Place,
    decodes: tuple[int, int] = (0, 0),
    chunks: tuple[int, int] = (0, 0),
    padding: bool = False,
    windows: bool = False,
    **fixed: Any,
) -> Case:
    """Sizes of a batch. `decodes` and `chunks` are the fewest and the most rows of that kind; `fixed` overrides what is drawn.

    `rows` are (new tokens, tokens with them): (1, 0) is a padding row, which has no context. Where `between` is given, so many padding
    rows follow, and then the rows again.
    """
    block_size = draw(st.sampled_from([4, 1, 2, 3, 8, 16, 64, 256]))  # the last is longer than most contexts: contiguous storage
    pages = [max(1, count * block_size + step) for count in (1, 2) for step in (-1, 0, 1)]
    tiles = [edge for edge in EDGES if edge < 70] if place.interpreted else EDGES
    context = st.one_of(st.sampled_from(pages), st.integers(1, 40), st.sampled_from(tiles))
    single = st.one_of(st.just(0), context) if padding else context
    rows = [[1, draw(single)] for _ in range(draw(st.integers(*decodes)))]
    for _ in range(draw(st.integers(*chunks))):
        total = draw(context.filter(lambda length: length > 1))
        rows.append([draw(st.integers(2, min(total, 70))), total])
    small = {"cpu": [8, 4, 24], "cuda": [16]}[place.device]
    drawn = {
        "rows": rows,
        "block_size": block_size,
        "group": draw(st.sampled_from(GROUPS)),
        "kv_heads": draw(st.sampled_from([1, 2] if place.interpreted else [1, 2, 3])),
        "head_dim": draw(st.sampled_from([*small, 64, 80] if place.interpreted else [*small, 64, 80, 96, 128, 256])),
        "dtype": draw(st.sampled_from(place.dtypes)),
        "window": draw(st.integers(1, 45)) if windows else None,
        "scale": draw(st.sampled_from([None, 0.1])),  # None: one over the root of head_dim
        "layout": draw(st.sampled_from(LAYOUTS)),
        "spare_columns": draw(st.sampled_from([0, 3])),  # of the block table
        "strided_q": draw(st.booleans()),  # a view of the fused projection, as in the model
        "seed": draw(st.integers(0, 99)),
    }
    return {**drawn, **fixed, **place.where}


@st.composite
def long(draw: st.DrawFn, place: Place) -> Case:
    """One row, alone in its batch, of at least three tiles: a kernel cuts it into parts, of which several have keys."""
    context = draw(st.sampled_from([129, 192, 200, 257]))
    return draw(cases(place, rows=[[1, context]]))


@st.composite
def many(draw: st.DrawFn, place: Place) -> Case:
    """More rows than a kernel cuts into parts. At either end of the batch are one of several tiles and a short one; each has enough
    heads that the largest score of some lies beyond the first tile."""
    long = draw(st.sampled_from([129, 160, 200]))
    group = draw(st.sampled_from([4, 7, 8]))
    return draw(cases(place, rows=[[1, long], [1, draw(st.integers(1, 9))]], between=257, group=group))


def build(case: Case, stretch: float = 1.0) -> tuple[torch.Tensor, KV, Batch]:
    """(q, kv, batch) of a case; q is multiplied by `stretch`."""
    random = torch.Generator().manual_seed(case["seed"])
    dtype, device, D, Hkv = dtype_of(case), device_of(case), case["head_dim"], case["kv_heads"]
    rows, size = rows_of(case), case["block_size"]
    tables, num_blocks = scattered_tables([context for _, context in rows], size, case["seed"])
    kv = make_cache(num_blocks, size, Hkv, D, dtype, case["layout"], device)
    at = [(table[i // size], i % size) for table, (_, context) in zip(tables, rows, strict=True) for i in range(context)]
    if at:
        blocks, offsets = torch.tensor(at).unbind(1)
        for cache in kv:
            cache[blocks, offsets] = torch.randn(len(at), Hkv, D, generator=random).to(device, dtype)
    batch = make_batch([([0] * new, context - new) for new, context in rows], tables, size, device=device)
    if case["spare_columns"]:
        spare = torch.zeros(len(rows), case["spare_columns"], dtype=torch.int32, device=device)
        batch = replace(batch, block_tables=torch.cat((batch.block_tables, spare), dim=1))
    heads, T = Hkv * case["group"], len(batch.token_ids)
    q = torch.randn(T, heads + 2 if case["strided_q"] else heads, D, generator=random) * stretch
    return q.to(device, dtype)[:, :heads], kv, batch


def rows_of(case: Case) -> list[list[int]]:
    """All rows of the batch."""
    between = case.get("between")
    return case["rows"] if between is None else [*case["rows"], *[[1, 0]] * between, *case["rows"]]
