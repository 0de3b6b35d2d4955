"""How a tensor that is wrong is described: the worst element, digits that differ, and a factor that all of its neighbours share."""

from __future__ import annotations

import pytest
import torch

from minfer.testing.properties import Differs
from minfer.testing.reference import assert_close

EXPECTED = torch.tensor([[1.0, -2.0, 3.0, 4.0], [5.0, 6.0, -7.0, 8.0]], dtype=torch.float64)


def came_of(actual: torch.Tensor) -> str:
    with pytest.raises(Differs) as error:
        assert_close(actual.float(), EXPECTED)
    return error.value.came


def test_one_factor_for_the_last_dimension_is_named():
    wrong = EXPECTED * torch.tensor([[1.0], [0.25]])
    assert "all 4 values beside it are 0.25 times what is expected" in came_of(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        EXPECTED + 1,
        torch.zeros_like(EXPECTED),
        torch.full_like(EXPECTED, float("nan")),
        torch.cat((EXPECTED[:1], EXPECTED[1:].flip(-1))),
    ],
    ids=["offset", "zeros", "nan", "order"],
)
def test_where_there_is_none_nothing_is_said(wrong):
    assert "times what is expected" not in came_of(wrong)


def test_nan_is_explained():
    assert "nan, which comes of 0 / 0" in came_of(torch.full_like(EXPECTED, float("nan")))


def test_numbers_that_differ_are_printed_so():
    """Six digits are enough for most errors, and not for a small one."""
    with pytest.raises(Differs) as error:
        assert_close((EXPECTED * (1 + 4e-7 * torch.tensor([1, 0, 0, 0]))).float(), EXPECTED, slack=1e-3)
    assert not error.value.expected.startswith(error.value.came.partition(",")[0] + " at")
