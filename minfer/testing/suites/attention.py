"""Slot `attention`: every row attends over its own context in its own pages, and over nothing else.

The cache is full of NaN but for the slots that hold a token, pages are scattered, and contexts crowd around the edges where kernels
go wrong: of a page, and of the tiles and splits that a long context is cut into.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from minfer.parts import KV
from minfer.testing import reference
from minfer.testing.attention_cases import EDGES, GROUPS, build, cases, long, many, rows_of
from minfer.testing.batches import FAR, LAYOUTS, make_batch
from minfer.testing.properties import Case, Differs, Place, Property, again, device_of, expect_tensor, untouched
from minfer.types import Batch


def check(part: Any, case: Case, stretch: float = 1.0, slack: float = 1.0) -> torch.Tensor:
    """Compare with the reference → the part's output."""
    q, kv, batch = build(case, stretch)
    scale = case["scale"] or case["head_dim"] ** -0.5
    expected = reference.attention(q, kv, batch, scale, case["window"])
    with untouched(**shared(kv, batch)):
        out = part(q.clone() if q.is_contiguous() else q, kv, batch, scale, case["window"])
        expect_tensor(out, q, "the output")
        reference.assert_close(out, expected, slack, lambda index: locate(case, *index))
    return out


def shared(kv: KV, batch: Batch) -> dict[str, torch.Tensor]:
    """What the other layers read as well, by name."""
    tensors = {name: getattr(batch, name) for name in ("positions", "slots", "query_start", "context_lens", "block_tables")}
    return {"the cache of K": kv[0], "the cache of V": kv[1], **{f"batch.{name}": tensor for name, tensor in tensors.items()}}


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
        "layout": dict.fromkeys((*LAYOUTS, case["layout"])),
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
        "large-cache",
        "A cache may have more than 2³¹ elements: where a block begins is a number of 64 bits.",
        12,
        decodes=(1, 2),
        chunks=(0, 1),
        dtype="float16",
        layout=FAR,
    ),
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
    again(lambda place: cases(place, decodes=(1, 2), chunks=(0, 1)), check),
]
