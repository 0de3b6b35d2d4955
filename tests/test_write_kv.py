"""Slot `write_kv`: its suite over every part; the PyTorch part rounds as transformers does."""

from __future__ import annotations

import pytest
import torch
from slot_suites import suite_test

from minfer.testing.suites.write_kv import build
from minfer.write_kv.torch import write_kv

test_every_part_has_the_properties = suite_test("write_kv")


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_torch_part_rounds_as_transformers_does(dtype, normed):
    """Equal bits to transformers' rotary embedding, after its q/k norm where there is one."""
    from transformers.models.qwen3.modeling_qwen3 import Qwen3RMSNorm, apply_rotary_pos_emb

    case = {"tokens": 6, "heads": [4, 2], "head_dim": 24, "block_size": 4, "normed": normed, "layout": "contiguous", "seed": 0}
    (q, k, v, cos, sin, q_norm, k_norm), kv, slots = build({**case, "dtype": dtype})
    theirs_q, theirs_k = q, k
    if normed:
        norms = [Qwen3RMSNorm(24, eps=1e-6).to(q.dtype) for _ in range(2)]
        norms[0].weight.data.copy_(q_norm)
        norms[1].weight.data.copy_(k_norm)
        theirs_q, theirs_k = norms[0](q), norms[1](k)
    twice_cos, twice_sin = (torch.cat((x, x), dim=-1).to(q.dtype)[None] for x in (cos, sin))
    theirs_q, theirs_k = apply_rotary_pos_emb(theirs_q.transpose(0, 1)[None], theirs_k.transpose(0, 1)[None], twice_cos, twice_sin)
    out = write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, 1e-6)
    assert torch.equal(out, theirs_q[0].transpose(0, 1))
    assert torch.equal(kv[0].flatten(0, 1)[slots], theirs_k[0].transpose(0, 1))
