"""Slot `norm`: every part equals the float64 reference, and transformers' rounding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.norm.torch import add_rms_norm
from minfer.testing import reference

PARTS = {"torch": add_rms_norm}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def draw(tokens: int, size: int, dtype: torch.dtype, seed: int, spread: float = 1.0) -> tuple[torch.Tensor, ...]:
    random = torch.Generator().manual_seed(seed)
    x = (torch.randn(tokens, size, generator=random) * spread).to(dtype)
    residual = (torch.randn(tokens, size, generator=random) * spread).to(dtype)
    return x, residual, torch.rand(size, generator=random).add(0.5).to(dtype)


@pytest.mark.parametrize("norm", PARTS.values(), ids=PARTS)
@settings(deadline=None, max_examples=50)
@given(
    tokens=st.sampled_from([0, 1, 7]),
    size=st.sampled_from([1, 2, 48, 64, 100, 576]),
    dtype=st.sampled_from(DTYPES),
    eps=st.sampled_from([1e-6, 1e-5, 1e-2]),
    spread=st.sampled_from([1e-3, 1.0, 100.0]),
    has_residual=st.booleans(),
    seed=st.integers(0, 99),
)
def test_norm_equals_the_reference(norm, tokens, size, dtype, eps, spread, has_residual, seed):
    """Both outputs: the normalised sum and the sum, which is the next residual. Small values are those where eps matters."""
    x, residual, weight = draw(tokens, size, dtype, seed, spread)
    residual = residual if has_residual else None
    expected, expected_sum = reference.norm(x, residual, weight, eps)
    out, summed = norm(x.clone(), None if residual is None else residual.clone(), weight, eps)
    assert out.dtype == summed.dtype == dtype
    reference.assert_close(summed, expected_sum)
    reference.assert_close(out, expected)


@pytest.mark.parametrize("norm", PARTS.values(), ids=PARTS)
def test_zero_rows_stay_zero(norm):
    """A row of zeros has no direction: eps keeps it from becoming NaN."""
    out, _ = norm(torch.zeros(2, 16), torch.zeros(2, 16), torch.ones(16), 1e-6)
    assert torch.equal(out, torch.zeros(2, 16))


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_part_rounds_as_transformers_does(dtype):
    """transformers' LlamaRMSNorm rounds to the dtype before it applies the weight: equal bits."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    x, residual, weight = draw(64, 96, dtype, 0)
    theirs = LlamaRMSNorm(96, eps=1e-5).to(dtype)
    theirs.weight.data.copy_(weight)
    out, summed = add_rms_norm(x.clone(), residual.clone(), weight, 1e-5)
    assert torch.equal(summed, residual + x)
    assert torch.equal(out, theirs(residual + x))
