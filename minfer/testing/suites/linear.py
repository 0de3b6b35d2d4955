"""Slot `linear`: the matrix product of every projection, with weights laid out by the part's own `pack` where it has one."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from minfer.testing import reference
from minfer.testing.properties import Case, Place, Property, again, device_of, dtype_of, expect_tensor, untouched

TOKENS = [1, 2, 3, 4, 8, 17, 64, 0]
SIZES = [1, 2, 3, 7, 16, 33, 64, 100, 257, 600]


def cases(place: Place) -> st.SearchStrategy[Case]:
    drawn = {
        "tokens": st.sampled_from(TOKENS),
        "num_in": st.sampled_from(SIZES),
        "num_out": st.sampled_from(SIZES),
        "bias": st.booleans(),
        "apart": st.booleans(),  # rows of x lie apart in memory: it is a view, as a part for another slot may give one
        "dtype": st.sampled_from(place.dtypes),
        "seed": st.integers(0, 99),
    }
    return st.fixed_dictionaries({**drawn, **{name: st.just(value) for name, value in place.where.items()}})


def check(part: Any, case: Case) -> None:
    random = torch.Generator().manual_seed(case["seed"])
    where = device_of(case), dtype_of(case)
    x = torch.randn(case["tokens"], case["num_in"] + 5 * case["apart"], generator=random).to(*where)[:, : case["num_in"]]
    weight = torch.randn(case["num_out"], case["num_in"], generator=random).to(*where)
    bias = torch.randn(case["num_out"], generator=random).to(*where) if case["bias"] else None
    expected = reference.linear(x, weight, bias)
    packed = part.pack(weight.clone()) if hasattr(part, "pack") else weight
    with untouched(weight=weight, bias=bias):
        out = part(x, packed, bias)
    expect_tensor(out, torch.empty(case["tokens"], case["num_out"], dtype=x.dtype, device=x.device), "the output")
    reference.assert_close(out, expected, place=lambda index: f"row {index[0]}, column {index[1]}")


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {
        "tokens": {tokens: {**case, "tokens": tokens} for tokens in TOKENS},
        "num_in": {size: {**case, "num_in": size} for size in SIZES},
        "num_out": {size: {**case, "num_out": size} for size in SIZES},
        "bias": {given: {**case, "bias": given} for given in (False, True)},
        "apart": {apart: {**case, "apart": apart} for apart in (False, True)},
        "dtype": {dtype: {**case, "dtype": dtype} for dtype in place.dtypes},
    }


PROPERTIES = [
    Property("product", "y = x weightᵀ + bias, for any number of tokens, none included.", cases, check, 100, vary),
    again(cases, check),
]
