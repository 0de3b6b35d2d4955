"""Slot `activation`: its suite over every part; the PyTorch part rounds as transformers does."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from slot_suites import suite_test

from minfer.activation.torch import silu_mul

test_every_part_has_the_properties = suite_test("activation")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_torch_part_rounds_as_transformers_does(dtype):
    """The MLP of transformers rounds silu(gate) before it multiplies: equal bits."""
    gate_up = (torch.randn(64, 192, generator=torch.Generator().manual_seed(0)) * 2).to(dtype)
    gate, up = gate_up.chunk(2, dim=-1)
    assert torch.equal(silu_mul(gate_up.clone()), F.silu(gate) * up)
