"""Slot `linear`: every part equals the float64 reference."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.linear.onednn import linear as onednn_linear
from minfer.linear.torch import linear as torch_linear
from minfer.testing import reference

PARTS = {"torch": torch_linear, "onednn": onednn_linear}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("linear", PARTS.values(), ids=PARTS)
@settings(deadline=None, max_examples=30)
@given(
    tokens=st.sampled_from([0, 1, 2, 17]),
    num_in=st.integers(1, 100),
    num_out=st.integers(1, 100),
    bias=st.booleans(),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_linear_equals_the_reference(linear, tokens, num_in, num_out, bias, dtype, seed):
    """x weightᵀ + bias, for any number of tokens, none included."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, num_in, generator=random).to(dtype)
    weight = torch.randn(num_out, num_in, generator=random).to(dtype)
    b = torch.randn(num_out, generator=random).to(dtype) if bias else None
    packed = linear.pack(weight) if hasattr(linear, "pack") else weight
    out = linear(x, packed, b)
    assert out.dtype == dtype
    reference.assert_close(out, reference.linear(x, weight, b))
