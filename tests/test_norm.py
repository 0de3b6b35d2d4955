"""Slot `norm`: its suite over every part; the PyTorch part rounds as transformers does."""

from __future__ import annotations

import pytest
import torch
from slot_suites import suite_test

from minfer.norm.torch import add_rms_norm
from minfer.testing.suites.norm import build

test_every_part_has_the_properties = suite_test("norm")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_torch_part_rounds_as_transformers_does(dtype):
    """transformers' LlamaRMSNorm rounds to the dtype before it applies the weight: equal bits."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    x, residual, weight = build({"tokens": 64, "size": 96, "dtype": dtype, "seed": 0, "spread": 1.0, "residual": True})
    theirs = LlamaRMSNorm(96, eps=1e-5).to(weight.dtype)
    theirs.weight.data.copy_(weight)
    out, summed = add_rms_norm(x.clone(), residual.clone(), weight, 1e-5)
    assert torch.equal(summed, residual + x)
    assert torch.equal(out, theirs(residual + x))
