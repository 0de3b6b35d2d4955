"""Slot `activation`: SiLU of the first half times the second half."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from minfer.testing import reference
from minfer.testing.properties import Case, Place, Property, again, device_of, dtype_of, expect_tensor

SIZES = [1, 2, 31, 48, 64, 100, 1000, 1024, 1025, 1536, 2050]  # some are no multiple of a kernel's tile


def cases(place: Place, **fixed: Any) -> st.SearchStrategy[Case]:
    """Sizes and scale of one call. `spread` is the standard deviation: at 30, SiLU is saturated."""
    drawn = {
        "tokens": st.sampled_from([1, 2, 5, 0]),
        "size": st.sampled_from(SIZES),
        "dtype": st.sampled_from(place.dtypes),
        "spread": st.sampled_from([1.0, 0.1]),
        "apart": st.booleans(),  # rows lie apart in memory: gate_up is a view, as a part for `linear` may give one
        "seed": st.integers(0, 99),
    }
    constant = {**fixed, **place.where}
    return st.fixed_dictionaries({**drawn, **{name: st.just(value) for name, value in constant.items()}})


def check(part: Any, case: Case) -> None:
    random = torch.Generator().manual_seed(case["seed"])
    width = 2 * case["size"]
    gate_up = torch.randn(case["tokens"], width + 5 * case["apart"], generator=random) * case["spread"]
    gate_up = gate_up.to(device_of(case), dtype_of(case))[:, :width]
    expected = reference.activation(gate_up)
    out = part(gate_up)
    expect_tensor(out, gate_up[:, : case["size"]], "the output")
    reference.assert_close(out, expected, place=lambda index: f"row {index[0]}, column {index[1]}")


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {
        "size": {size: {**case, "size": size} for size in SIZES},
        "tokens": {tokens: {**case, "tokens": tokens} for tokens in (1, 2, 5)},
        "apart": {apart: {**case, "apart": apart} for apart in (False, True)},
        "dtype": {dtype: {**case, "dtype": dtype} for dtype in place.dtypes},
        "spread": {spread: {**case, "spread": spread} for spread in (0.1, 1.0, 30.0)},
    }


PROPERTIES = [
    Property("silu-mul", "y = gate * sigmoid(gate) * up: the gate is the first half of a row, up the second.", cases, check, 60, vary),
    Property(
        "saturated",
        "Where the gate is far from zero, SiLU is the gate or zero; nothing overflows.",
        lambda place: cases(place, spread=30.0),
        check,
        30,
        vary,
    ),
    again(cases, check),
]
