"""What minfer's norms promise beyond the suite: they round where transformers does, and take rows that lie apart in memory.

From: chapters, which ask for it by name. To: `minfer/testing/checking.py`. A norm that rounds less is a norm as well, but an engine
in which it takes the place of another one gives other numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st

from minfer.testing import reference
from minfer.testing.properties import Case, Differs, Place, Property
from minfer.testing.suites.norm import build, call, locate, vary

MOST_OTHERS = 0.02  # of the values: the plain version's own arithmetic, in float32, is inexact where one lies between two


def cases(place: Place, dtypes: list[str]) -> st.SearchStrategy[Case]:
    """Enough values that some are rounded up and some down."""
    return st.fixed_dictionaries(
        {
            "tokens": st.just(7),
            "size": st.sampled_from([64, 100, 576]),
            "residual": st.booleans(),
            "dtype": st.sampled_from(dtypes),
            "eps": st.just(1e-5),
            "spread": st.just(1.0),
            "seed": st.integers(0, 99),
            **{name: st.just(value) for name, value in place.where.items()},
        }
    )


def check_rounding(part: Any, case: Case) -> None:
    """Equal to the plain version in nearly all values, where it is computed exactly and rounded three times."""
    x, residual, weight = build(case)
    out, summed = call(part, x, residual, weight, case["eps"])
    r = x if residual is None else (x.double() + residual.double()).to(x.dtype)
    scaled = reference.rms_norm(r, torch.ones_like(weight), case["eps"]).to(x.dtype)
    for came, wanted, what in (
        (summed, r, "x + residual, rounded once,"),
        (out, (scaled.double() * weight.double()).to(x.dtype), "the plain version, which rounds r and r * scale,"),
    ):
        other = came != wanted
        if other.double().mean() > MOST_OTHERS:
            index = tuple(int(i) for i in other.nonzero()[0])
            raise Differs(
                f"{wanted[index]:.9g} at {locate(index)}, as {what} has it",
                f"{came[index]:.9g}; {int(other.sum())} of {other.numel()} values differ",
            )


def check_apart(part: Any, case: Case) -> None:
    """x and the residual are views of wider tensors, each with a row stride of its own."""
    x, residual, weight = build(case)
    expected, expected_sum = reference.norm(x, residual, weight, case["eps"])
    size = case["size"]
    wide_x = x.new_zeros(len(x), size + 8)
    wide_x[:, :size] = x
    if residual is not None:
        wide_residual = x.new_zeros(len(x), size + 16)
        wide_residual[:, :size] = residual
        residual = wide_residual[:, :size]
    out, summed = part(wide_x[:, :size], residual, weight, case["eps"])
    reference.assert_close(summed, expected_sum, place=lambda index: f"the sum, {locate(index)}")
    reference.assert_close(out, expected, place=locate)


PROPERTIES = [
    Property(
        "rounding",
        "In half precision r is rounded before it is squared, and r * scale before the weight multiplies it, as in the plain version.",
        lambda place: cases(place, place.dtypes[1:]),
        check_rounding,
        30,
        lambda case, place: {key: value for key, value in vary(case, place).items() if key == "residual"},
    ),
    Property(
        "apart",
        "Rows may lie apart in memory: x and the residual have each a row stride of its own.",
        lambda place: cases(place, place.dtypes[:1]),
        check_apart,
        20,
        lambda case, place: {key: value for key, value in vary(case, place).items() if key == "residual"},
    ),
]
