"""Slot `write_kv`: every part equals the float64 reference, writes its slots and no others, and rounds as transformers does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.testing import reference
from minfer.testing.batches import LAYOUTS, make_cache
from minfer.write_kv.torch import write_kv as torch_write_kv

PARTS = {"torch": torch_write_kv}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def draw(tokens: int, heads: int, kv_heads: int, D: int, dtype: torch.dtype, seed: int, normed: bool) -> tuple[torch.Tensor, ...]:
    """q, k, v as views of one product, as in the model; cos, sin; q_norm and k_norm or None."""
    random = torch.Generator().manual_seed(seed)
    qkv = torch.randn(tokens, heads + 2 * kv_heads, D, generator=random).to(dtype)
    angles = torch.rand(tokens, D // 2, generator=random) * 6.28
    norms = [torch.rand(D, generator=random).add(0.5).to(dtype) for _ in range(2)] if normed else [None, None]
    return (*qkv.split((heads, kv_heads, kv_heads), dim=1), angles.cos(), angles.sin(), *norms)


@pytest.mark.parametrize("write_kv", PARTS.values(), ids=PARTS)
@settings(deadline=None, max_examples=60)
@given(
    tokens=st.integers(1, 9),
    heads=st.sampled_from([(1, 1), (4, 2), (9, 3), (7, 1), (8, 8)]),
    D=st.sampled_from([4, 8, 24, 64, 80, 96]),
    block_size=st.sampled_from([1, 3, 16]),
    layout=st.sampled_from(LAYOUTS),
    dtype=st.sampled_from(DTYPES),
    normed=st.booleans(),
    seed=st.integers(0, 99),
)
def test_write_kv_equals_the_reference(write_kv, tokens, heads, D, block_size, layout, dtype, normed, seed):
    """The rotated q and the written slots are right, and every other slot of the cache keeps its bytes."""
    q, k, v, cos, sin, q_norm, k_norm = draw(tokens, *heads, D, dtype, seed, normed)
    blocks = -(-tokens // block_size) + 2
    kv = make_cache(blocks, block_size, heads[1], D, dtype, layout)
    slots = torch.randperm(blocks * block_size, generator=torch.Generator().manual_seed(seed))[:tokens]
    wide = tuple(cache.double() for cache in kv)
    expected = reference.write_kv(q, k, v, cos, sin, wide, slots, q_norm, k_norm, 1e-5)
    out = write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, 1e-5)
    assert out.dtype == dtype
    reference.assert_close(out, expected, slack=2)
    written = torch.zeros(blocks * block_size, dtype=torch.bool).index_fill_(0, slots, True).view(blocks, block_size)
    for cache, expected_cache in zip(kv, wide, strict=True):
        reference.assert_close(cache[written], expected_cache[written], slack=2)
        assert cache[~written].isnan().all(), "a slot that belongs to no token was written"
    assert torch.equal(kv[1][written].sort(0).values, v.sort(0).values), "v must be stored as it is"


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_part_rounds_as_transformers_does(dtype, normed):
    """Equal bits to transformers' rotary embedding, after its q/k norm where there is one."""
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, apply_rotary_pos_emb

    q, k, v, cos, sin, q_norm, k_norm = draw(6, 4, 2, 24, dtype, 0, normed)
    theirs_q, theirs_k = q, k
    if normed:
        norms = [Qwen3RMSNorm(24, eps=1e-6).to(dtype) for _ in range(2)]
        norms[0].weight.data.copy_(q_norm)
        norms[1].weight.data.copy_(k_norm)
        theirs_q, theirs_k = norms[0](q), norms[1](k)
    twice_cos, twice_sin = (torch.cat((x, x), dim=-1).to(dtype)[None] for x in (cos, sin))
    theirs_q, theirs_k = apply_rotary_pos_emb(theirs_q.transpose(0, 1)[None], theirs_k.transpose(0, 1)[None], twice_cos, twice_sin)
    kv = make_cache(2, 4, 2, 24, dtype)
    out = torch_write_kv(q, k, v, cos, sin, kv, torch.arange(6), q_norm, k_norm, 1e-6)
    assert torch.equal(out, theirs_q[0].transpose(0, 1))
    assert torch.equal(kv[0].flatten(0, 1)[:6], theirs_k[0].transpose(0, 1))


def test_padding_rows_may_share_a_slot():
    """The rows that pad a batch all write slot 0, which belongs to the padding block."""
    q, k, v, cos, sin, _, _ = draw(4, 2, 1, 8, torch.float32, 0, False)
    kv = make_cache(3, 4, 1, 8, torch.float32)
    torch_write_kv(q, k, v, cos, sin, kv, torch.tensor([5, 0, 0, 0]), None, None, 1e-6)
    assert torch.equal(kv[1][1, 1], v[0])
    assert kv[1][0, 1:].isnan().all()
    assert kv[1][2].isnan().all()
