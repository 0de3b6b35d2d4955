"""Slot `activation`: every part equals the float64 reference, and transformers' rounding."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.activation.torch import silu_mul
from minfer.testing import reference

PARTS = {"torch": silu_mul}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def draw_gate_up(tokens: int, size: int, dtype: torch.dtype, seed: int, spread: float) -> torch.Tensor:
    return (torch.randn(tokens, 2 * size, generator=torch.Generator().manual_seed(seed)) * spread).to(dtype)


@pytest.mark.parametrize("activation", PARTS.values(), ids=PARTS)
@settings(deadline=None, max_examples=40)
@given(
    tokens=st.sampled_from([0, 1, 5]),
    size=st.integers(1, 100),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
    spread=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_activation_equals_the_reference(activation, tokens, size, dtype, seed, spread):
    """silu(first half) * second half, also where silu saturates."""
    gate_up = draw_gate_up(tokens, size, dtype, seed, spread)
    expected = reference.activation(gate_up)
    out = activation(gate_up.clone())
    assert out.dtype == dtype
    reference.assert_close(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_part_rounds_as_transformers_does(dtype):
    """The MLP of transformers rounds silu(gate) before it multiplies: equal bits."""
    gate_up = draw_gate_up(64, 96, dtype, 0, 2.0)
    gate, up = gate_up.chunk(2, dim=-1)
    assert torch.equal(silu_mul(gate_up.clone()), F.silu(gate) * up)
