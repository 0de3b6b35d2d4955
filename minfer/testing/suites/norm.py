"""Slot `norm`: the residual is added, the sum is normalised, and both come back."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from minfer.testing import reference
from minfer.testing.properties import Case, Place, Property, again, device_of, dtype_of, expect, expect_tensor, untouched

SIZES = [2, 1, 3, 48, 64, 100, 128, 576, 1000, 2049]


def cases(place: Place, **fixed: Any) -> st.SearchStrategy[Case]:
    """Sizes and scales of one call. `spread` is the standard deviation of x and of the residual."""
    drawn = {
        "tokens": st.sampled_from([1, 2, 7, 0]),
        "size": st.sampled_from(SIZES[:-2] if place.interpreted else SIZES),
        "residual": st.booleans(),
        "dtype": st.sampled_from(place.dtypes),
        "eps": st.sampled_from([1e-5, 1e-6, 1e-2]),
        "spread": st.sampled_from([1.0, 1e-3, 100.0]),
        "seed": st.integers(0, 99),
    }
    constant = {**fixed, **place.where}
    return st.fixed_dictionaries({**drawn, **{name: st.just(value) for name, value in constant.items()}})


def build(case: Case) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """x and residual [tokens, size] and weight [size]."""
    random = torch.Generator().manual_seed(case["seed"])
    where = device_of(case), dtype_of(case)
    x, residual = (torch.randn(case["tokens"], case["size"], generator=random) * case["spread"] for _ in range(2))
    weight = torch.rand(case["size"], generator=random) + 0.5
    return x.to(*where), residual.to(*where) if case["residual"] else None, weight.to(*where)


def call(part: Any, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float) -> tuple:
    """Run the part on copies, since it may write into x and residual → (y, r)."""
    with untouched(weight=weight):
        result = part(x.clone(), None if residual is None else residual.clone(), weight, eps)
    expect(isinstance(result, tuple) and len(result) == 2, "a pair: the normalised sum and the sum", type(result).__name__)
    for value, what in zip(result, ("the normalised sum", "the sum"), strict=True):
        expect_tensor(value, x, what)
    return result


def check_normalised(part: Any, case: Case) -> None:
    x, residual, weight = build(case)
    out, _ = call(part, x, residual, weight, case["eps"])
    expected, _ = reference.norm(x, residual, weight, case["eps"])
    reference.assert_close(out, expected, place=locate)


def check_sum(part: Any, case: Case) -> None:
    x, residual, weight = build(case)
    _, summed = call(part, x, residual, weight, case["eps"])
    _, expected = reference.norm(x, residual, weight, case["eps"])
    reference.assert_close(summed, expected, place=locate)


def check_zeros(part: Any, case: Case) -> None:
    x, residual, weight = build(case)
    x.zero_()
    if residual is not None:
        residual.zero_()
    out, _ = call(part, x, residual, weight, case["eps"])
    reference.assert_close(out, torch.zeros(out.shape, dtype=torch.float64), place=locate)


def check_rows(part: Any, case: Case) -> None:
    """A row alone gives what it gives in the batch."""
    x, residual, weight = build(case)
    together, _ = call(part, x, residual, weight, case["eps"])
    for row in range(case["tokens"]):
        one = slice(row, row + 1)
        alone, _ = call(part, x[one], None if residual is None else residual[one], weight, case["eps"])
        reference.assert_close(alone, together[one].double(), slack=2, place=lambda index, row=row: f"row {row} alone, {locate(index)}")


def locate(index: tuple[int, int]) -> str:
    return f"row {index[0]}, column {index[1]}"


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {
        "size": {size: {**case, "size": size} for size in SIZES},
        "residual": {given: {**case, "residual": given} for given in (False, True)},
        "tokens": {tokens: {**case, "tokens": tokens} for tokens in (1, 2, 7)},
        "dtype": {dtype: {**case, "dtype": dtype} for dtype in place.dtypes},
        "eps": {eps: {**case, "eps": eps} for eps in (1e-6, 1e-5, 1e-2)},
        "spread": {spread: {**case, "spread": spread} for spread in (1e-3, 1.0, 100.0)},
    }


PROPERTIES = [
    Property("normalised", "y = r / sqrt(mean(r²) + eps) * weight, where r = x + residual.", cases, check_normalised, 80, vary),
    Property("sum", "The second result is r = x + residual, and x where there is no residual.", cases, check_sum, 40, vary),
    Property(
        "large-values",
        "Squares are summed in float32: in float16, those of values above 255 overflow.",
        lambda place: cases(place, spread=100.0, dtype="float16"),
        check_normalised,
        20,
        vary,
    ),
    Property("zeros", "A row of zeros stays zero: eps is inside the root.", lambda place: cases(place, spread=1.0), check_zeros, 15),
    Property("rows", "A row depends on no other.", lambda place: cases(place, dtype="float32"), check_rows, 20, vary),
    again(cases, check_normalised),
]
