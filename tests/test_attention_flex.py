"""Slot `attention`, FlexAttention: equals the float64 reference; what is compiled is tested once, since that takes its time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import Draw, attention_case, check_attention
from torch.nn.attention.flex_attention import flex_attention

from minfer.attention import flex
from minfer.testing.batches import LAYOUTS

MIXED = [(1, 5), (1, 0), (1, 33), (7, 20), (40, 40)]


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@settings(max_examples=30, phases=[Phase.generate])  # a seed has nothing to shrink
@given(st.integers(0, 2**32 - 1))
def test_flex_equals_the_reference(seed):
    """The masks and the copied keys, with FlexAttention's own plain version in the place of the compiled one."""
    draw = Draw(seed, (16, 128), 60)
    choose = draw.random.choice
    works = draw.works(3, choose([0, 1, 2]))
    heads, D, page = choose([(2, 2), (4, 2), (9, 3), (7, 1)]), choose([8, 64, 80]), choose([1, 5, 16])
    case = attention_case(works, heads, D, page, choose([torch.float32, torch.bfloat16]), choose(LAYOUTS), seed % 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flex, "compiled", lambda: flex_attention)
        check_attention(flex.attention, case, draw.window(works))


@pytest.mark.slow
def test_compiled_flex_equals_the_reference():
    """The compiled version, on sizes that are the same when filled up: compiled once, right for both."""
    for works in (MIXED, [(1, 64), (1, 7), (50, 61)]):
        check_attention(flex.attention, attention_case(works, (4, 2), 16, 4, torch.float32))


@pytest.mark.parametrize(("length", "filled"), [(0, 128), (1, 128), (128, 128), (129, 256), (256, 256), (300, 512)])
def test_sizes_are_filled_up_to_few(length, filled):
    """Powers of two from FlexAttention's block on; what is added has the given value."""
    out = flex.fill(torch.zeros(2, length, 3), 7.0, dim=1)
    assert out.shape == (2, filled, 3)
    assert not out[:, :length].any()
    assert (out[:, length:] == 7).all()
