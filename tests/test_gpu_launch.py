"""Kernels that begin before the one in front has ended, on a GPU: a race between them would show nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from kernel_cases import attention_case, batch_to, to_device
from sampling_kernel_cases import sample_case

pytestmark = pytest.mark.gpu
BF16 = torch.bfloat16


def test_kernels_that_begin_early_wait_for_what_they_read(monkeypatch):
    """A recorded chain of all of them, as in a decode step of one token, gives the same bits as without, each time it is replayed."""
    from minfer import launch
    from minfer.activation.triton import silu_mul
    from minfer.attention import triton_decode
    from minfer.linear.triton import linear
    from minfer.norm.triton import add_rms_norm
    from minfer.sample.triton import sample
    from minfer.write_kv.triton import write_kv

    heads, D, H, size = (16, 4), 64, 1024, 2816
    _, kv, batch = attention_case([(1, 700)], heads, D, 16, BF16)
    kv, batch = to_device(kv, "cuda"), batch_to(batch, "cuda")
    _, drawn = sample_case(2, 5000, BF16, device="cuda")
    of_rows = ("temperature", "seeds", "positions")
    drawn.sampling = replace(drawn.sampling, **{name: getattr(drawn.sampling, name)[1:] for name in of_rows})
    random = torch.Generator("cuda").manual_seed(0)

    def weight(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=random, device="cuda") * shape[-1] ** -0.5).to(BF16)

    sizes = [((heads[0] + 2 * heads[1]) * D, H), (H, heads[0] * D), (2 * size, H), (H, size)]
    layers = [[weight(*each) for each in sizes] for _ in range(8)]
    gain, head, x = torch.rand(H, generator=random, device="cuda").to(BF16), weight(5000, H), weight(1, H) * 30
    cos, sin = torch.rand(2, 1, D // 2, generator=random, device="cuda").unbind()

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        y, residual = x.clone(), None
        for qkv, o, gate_up, down in layers:
            y, residual = add_rms_norm(y, residual, gain, 1e-5)
            q, k, v = linear(y, qkv, None).view(1, -1, D).split((heads[0], heads[1], heads[1]), dim=1)
            q = write_kv(q, k, v, cos, sin, kv, batch.slots, None, None, 1e-5)
            y = linear(triton_decode.attention(q, kv, batch, 0.1, None).view(1, -1), o, None)
            y, residual = add_rms_norm(y, residual, gain, 1e-5)
            y = linear(silu_mul(linear(y, gate_up, None)), down, None)
        logits = linear(add_rms_norm(y, residual, gain, 1e-5)[0], head, None)
        return logits, sample(logits, drawn)

    def record() -> tuple[torch.cuda.CUDAGraph, tuple[torch.Tensor, torch.Tensor]]:
        step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = step()
        return graph, results

    assert launch.can_overlap(torch.device("cuda:0")) == (torch.cuda.get_device_capability() >= (9, 0))
    early, results = record()
    monkeypatch.setattr(launch, "can_overlap", lambda device: False)
    plain, expected = record()
    plain.replay()
    for _ in range(50):
        early.replay()
        torch.cuda.synchronize()
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(results, expected, strict=True))
