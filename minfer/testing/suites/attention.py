"""Slot `attention`: every row attends over its own context in its own pages, and over nothing else.

The cache is full of NaN but for the slots that hold a token, pages are scattered, and contexts crowd around the edges where kernels
go wrong: of a page, and of the tiles and splits that a long context is cut into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from minfer.parts import KV
from minfer.testing import reference
from minfer.testing.batches import LAYOUTS, make_batch, make_cache, scattered_tables
from minfer.testing.properties import Case, Differs, Place, Property, device_of, dtype_of, expect, expect_tensor
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


def check(part: Any, case: Case, stretch: float = 1.0, slack: float = 1.0) -> torch.Tensor:
    """Compare with the reference → the part's output."""
    q, kv, batch = build(case, stretch)
    scale = case["scale"] or case["head_dim"] ** -0.5
    expected = reference.attention(q, kv, batch, scale, case["window"])
    before = [cache.clone() for cache in kv]
    out = part(q.clone() if q.is_contiguous() else q, kv, batch, scale, case["window"])
    expect_tensor(out, q, "the output")
    reference.assert_close(out, expected, slack, lambda index: locate(case, *index))
    for cache, old in zip(kv, before, strict=True):
        expect(torch.equal(cache.nan_to_num(7), old.nan_to_num(7)), "the cache as it was", "a cache that was written to")
    return out


def locate(case: Case, token: int, head: int, dimension: int) -> str:
    """An element of the output in the words of the problem."""
    first = 0
    for row, (new, context) in enumerate(rows_of(case)):
        if token < first + new:
            position = context - new + token - first
            pages, last = -(-context // case["block_size"]), (context - 1) % case["block_size"] + 1
            here = (
                f"row {row}, position {position} of context {context} (pages: {pages}, the last holds {last} of {case['block_size']})"
            )
            here = here if context else f"row {row}, which is padding"
            return f"{here}, query head {head}, dimension {dimension}"
        first += new
    raise IndexError(token)


def check_alone(part: Any, case: Case) -> None:
    """Each row alone gives what it gives among the others."""
    together = check(part, case)
    q, kv, batch = build(case)
    for row, (new, context) in enumerate(case["rows"]):
        begin, end = int(batch.query_start[row]), int(batch.query_start[row + 1])
        own = batch.block_tables[row, : max(1, -(-context // case["block_size"]))]
        alone = make_batch([([0] * new, context - new)], [own.tolist()], case["block_size"], device=device_of(case))
        out = part(q[begin:end].clone(), kv, alone, case["scale"] or case["head_dim"] ** -0.5, case["window"])
        try:
            reference.assert_close(out, together[begin:end].double(), slack=2)
        except Differs as error:
            raise Differs(f"row {row} alone to be as it is among the others: {error.expected}", error.came) from None


def check_large(part: Any, case: Case) -> None:
    """Scores of a few hundred: exp() of them overflows unless the largest is subtracted first. Errors grow with the scores."""
    check(part, case, stretch=300, slack=300)


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    """One decode row of any context up to a little more than two pages, where the case has such rows only; and other sizes."""
    found = {}
    size = case["block_size"]
    if all(new == 1 for new, _ in case["rows"]):
        pages = range(2 * size + 2) if size < 16 else [count * size + step for count in (1, 2) for step in (-1, 0, 1)]
        contexts = sorted({0, 1, *pages, *(EDGES[:6] if place.interpreted else EDGES)})
        found["context of one row"] = {length: {**case, "rows": [[1, length]]} for length in contexts}
    others = {
        "block_size": (1, 2, 3, 4, 8, 16, 64),
        "group": GROUPS,  # query heads that share a K/V head
        "kv_heads": (1, 2, 3),
        "head_dim": (64, 80, 96, 128),
        "window": (None, 1, 2, 5, 32, 1000),
        "scale": (None, 0.1),
        "layout": LAYOUTS,
        "spare_columns": (0, 3),
        "strided_q": (False, True),
        "dtype": place.dtypes,
        **({"between": (0, case["between"])} if "between" in case else {}),
    }
    return found | {name: {value: {**case, name: value} for value in values} for name, values in others.items()}


def prop(name: str, statement: str, examples: int, check: Callable[[Any, Case], Any] = check, **drawn: Any) -> Property:
    """A property of batches of at least one row, drawn by `cases` with these arguments."""
    return Property(name, statement, lambda place: cases(place, **drawn).filter(lambda case: case["rows"]), check, examples, vary)


PROPERTIES = [
    prop("decode", "A decode row attends over all of its own context and over nothing else.", 400, decodes=(1, 4)),
    Property(
        "long-context",
        "A long context, which a kernel may cut into parts, counts as one: each part by its share of the sum of exponentials.",
        long,
        check,
        30,
        vary,
    ),
    Property(
        "many-rows",
        "In a large batch, where a kernel may share out its work differently, each row attends over its own context as well.",
        many,
        check,
        30,
        vary,
    ),
    prop(
        "chunk",
        "Each token of a prefill chunk sees the context before the chunk, the chunk's tokens before it, and itself.",
        150,
        chunks=(1, 2),
    ),
    prop(
        "window",
        "With a window of w, a token sees the last w positions up to its own, and no earlier ones.",
        200,
        decodes=(0, 3),
        chunks=(0, 2),
        windows=True,
    ),
    prop("padding", "A row without context gives zeros, and disturbs no other row.", 60, decodes=(1, 4), padding=True),
    prop("mixed", "Decodes, padding and chunks in one batch: each has its own.", 100, decodes=(1, 3), chunks=(1, 2), padding=True),
    prop(
        "alone",
        "A row depends on no other: alone it gives what it gives among them.",
        40,
        check_alone,
        decodes=(1, 3),
        chunks=(0, 2),
        padding=True,
        dtype="float32",
    ),
    prop(
        "large-scores",
        "Large scores do not overflow: the largest is subtracted before exp.",
        40,
        check_large,
        decodes=(1, 2),
        chunks=(0, 1),
        dtype="float32",
        scale=None,
    ),
]
