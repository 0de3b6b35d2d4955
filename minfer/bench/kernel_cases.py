"""What `minfer bench kernels` compares: each Triton kernel at the shapes of real models, beside what else computes the same.

From: nothing but random numbers. To: `kernels.py`, which times every contender of a case on the same data.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from minfer.activation import torch as torch_activation
from minfer.attention import torch as torch_attention
from minfer.bench.timing import rotations
from minfer.linear import torch as torch_linear
from minfer.norm import torch as torch_norm
from minfer.params import SamplingParams
from minfer.sample import torch as torch_sample
from minfer.testing.batches import make_batch
from minfer.types import Sampling
from minfer.write_kv import torch as torch_write_kv

HQ, HKV, D, PAGE = 32, 8, 128, 16  # of an 8B Llama, whose hidden size is 4096
BF16 = torch.bfloat16
MINFER, EAGER, COMPILED = "minfer", "PyTorch eager", "torch.compile"

DECODES = [(32, 512), (64, 2048), (256, 1024), (1, 8192)]  # rows, context
PREFILLS = [(1, 2048), (8, 1024), (1, 8192), (16, 512)]  # prompts, length
ROWS = [32, 8192]
SIZES = {"norm": 4096, "activation": 14336}
LINEARS = [(2048, 1024), (4096, 6144), (4096, 4096), (4096, 28672), (14336, 4096), (1024, 151936)]  # inputs, outputs; one token
SAMPLES = [(1, 151936), (256, 151936), (256, 32000)]  # rows, vocabulary


@dataclass(frozen=True)
class Case:
    """One kernel at one shape. Each contender is called with the number of the data set that it shall work on."""

    slot: str
    shape: str
    num_bytes: int  # that must be read and written at least
    flops: int  # of matrix products; 0 where memory is all that counts
    sets: int
    contenders: dict[str, Callable[[int], object]]


def cases() -> Iterator[Case]:
    """All of them, one alive at a time: their data fill gigabytes."""
    for rows, context in DECODES:
        yield decode(rows, context)
    for prompts, length in PREFILLS:
        yield prefill(prompts, length)
    for rows in ROWS:
        yield norm(rows, SIZES["norm"])
    for rows in ROWS:
        yield write_kv(rows)
    for rows in ROWS:
        yield activation(rows, SIZES["activation"])
    for num_in, num_out in LINEARS:
        yield linear(num_in, num_out)
    for rows, vocab in SAMPLES:
        yield sample(rows, vocab)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=BF16)


def scattered(sets: int, rows: int, pages: int) -> torch.Tensor:
    """Block tables [sets, rows, pages] that name each block but 0 once."""
    return (torch.randperm(sets * rows * pages, device="cuda").to(torch.int32) + 1).view(sets, rows, pages)


def decode(rows: int, context: int) -> Case:
    """One token of each of `rows` sequences over its pages."""
    from minfer.attention.triton_decode import attention

    num_bytes = 2 * rows * context * HKV * D * 2
    sets = rotations(num_bytes)
    tables = scattered(sets, rows, context // PAGE)
    kv = random(2, tables.numel() + 1, PAGE, HKV, D).unbind()
    q = random(rows, HQ, D)
    batches = [make_batch([([0], context - 1)] * rows, table.tolist(), PAGE, device="cuda") for table in tables]
    keys, values = random(2, sets, rows, HKV, context, D).unbind()
    contenders = {
        MINFER: lambda i: attention(q, kv, batches[i], D**-0.5, None),
        EAGER: lambda i: torch_attention.attention(q, kv, batches[i], D**-0.5, None),
        "SDPA, contiguous": lambda i: F.scaled_dot_product_attention(q[:, :, None], keys[i], values[i], enable_gqa=True),
    }
    if importlib.util.find_spec("flashinfer"):
        contenders["FlashInfer"] = flashinfer_decode(q, kv, tables, context)
    return Case("attention, decode", f"{rows} x {context}", num_bytes, 0, sets, contenders)


def flashinfer_decode(q: torch.Tensor, kv: tuple, tables: torch.Tensor, context: int) -> Callable[[int], object]:
    """FlashInfer's paged decode, planned beforehand, as its own benchmarks do."""
    import flashinfer

    wrappers = []
    for table in tables:
        pages = torch.arange(len(table) + 1, dtype=torch.int32, device="cuda") * table.shape[1]
        last = torch.full((len(table),), (context - 1) % PAGE + 1, dtype=torch.int32, device="cuda")
        workspace = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
        wrapper.plan(pages, table.flatten(), last, HQ, HKV, D, PAGE, q_data_type=BF16, kv_data_type=BF16)
        wrappers.append(wrapper)
    return lambda i: wrappers[i].run(q, kv)


def prefill(prompts: int, length: int) -> Case:
    """Whole prompts, causal, K and V in pages."""
    from minfer.attention.triton_paged import attention

    flops = 2 * prompts * length * length * D * HQ
    num_bytes = prompts * length * (2 * HQ + 2 * HKV) * D * 2
    sets = rotations(num_bytes)
    tables = scattered(sets, prompts, length // PAGE)
    kv = random(2, tables.numel() + 1, PAGE, HKV, D).unbind()
    q = random(sets, prompts * length, HQ, D)
    batches = [make_batch([([0] * length, 0)] * prompts, table.tolist(), PAGE, device="cuda") for table in tables]
    heads = random(sets, prompts, HQ, length, D)
    keys, values = random(2, sets, prompts, HKV, length, D).unbind()
    contenders = {
        MINFER: lambda i: attention(q[i], kv, batches[i], D**-0.5, None),
        EAGER: lambda i: torch_attention.attention(q[i], kv, batches[i], D**-0.5, None),
        "SDPA, contiguous": lambda i: F.scaled_dot_product_attention(heads[i], keys[i], values[i], is_causal=True, enable_gqa=True),
    }
    if importlib.util.find_spec("flash_attn"):
        from flash_attn import flash_attn_func

        rows = [tuple(x[i].transpose(1, 2).contiguous() for x in (heads, keys, values)) for i in range(sets)]
        contenders["flash-attn, contiguous"] = lambda i: flash_attn_func(*rows[i], causal=True)
    return Case("attention, prefill", f"{prompts} x {length}", num_bytes, flops, sets, contenders)


def norm(rows: int, size: int) -> Case:
    """Residual addition and RMSNorm."""
    from minfer.norm.triton import add_rms_norm

    num_bytes = 4 * rows * size * 2
    sets = rotations(num_bytes)
    x, residual, weight = random(sets, rows, size), random(sets, rows, size), random(size)
    compiled = torch.compile(torch_norm.add_rms_norm, dynamic=False)
    parts = {MINFER: add_rms_norm, EAGER: torch_norm.add_rms_norm, COMPILED: compiled}
    contenders = {name: lambda i, part=part: part(x[i], residual[i], weight, 1e-5) for name, part in parts.items()}
    return Case("norm", f"{rows} x {size}", num_bytes, 0, sets, contenders)


def write_kv(rows: int) -> Case:
    """q/k norm, rotary embedding, and K and V into scattered slots."""
    from minfer.write_kv import triton as triton_write_kv

    num_bytes = 2 * rows * (HQ + 2 * HKV) * D * 2
    sets = rotations(num_bytes)
    qkv = [random(rows, HQ + 2 * HKV, D).split((HQ, HKV, HKV), dim=1) for _ in range(sets)]
    cos, sin = torch.rand(2, rows, D // 2, device="cuda").unbind()
    norms = random(2, D).unbind()
    kv = random(2, sets * -(-rows // PAGE) + 1, PAGE, HKV, D).unbind()
    slots = torch.randperm(kv[0].shape[0] * PAGE, device="cuda")[: sets * rows].view(sets, rows)
    compiled = torch.compile(torch_write_kv.write_kv, dynamic=False)
    parts = {MINFER: triton_write_kv.write_kv, EAGER: torch_write_kv.write_kv, COMPILED: compiled}
    contenders = {name: lambda i, part=part: part(*qkv[i], cos, sin, kv, slots[i], *norms, 1e-6) for name, part in parts.items()}
    return Case("write_kv", f"{rows} tokens", num_bytes, 0, sets, contenders)


def activation(rows: int, size: int) -> Case:
    """SiLU times up. The eager part writes silu(gate) out in between."""
    from minfer.activation.triton import silu_mul

    num_bytes = 3 * rows * size * 2
    sets = rotations(num_bytes)
    gate_up = random(sets, rows, 2 * size)
    parts = {MINFER: silu_mul, EAGER: torch_activation.silu_mul, COMPILED: torch.compile(torch_activation.silu_mul, dynamic=False)}
    contenders = {name: lambda i, part=part: part(gate_up[i]) for name, part in parts.items()}
    return Case("activation", f"{rows} x {size}", num_bytes, 0, sets, contenders)


def linear(num_in: int, num_out: int) -> Case:
    """One token through a projection; eager and compiled PyTorch take cuBLAS or a kernel that torch.compile makes."""
    from minfer.linear.triton import linear as triton_linear

    num_bytes = num_in * num_out * 2
    sets = rotations(num_bytes)
    x, weights = random(1, num_in), random(sets, num_out, num_in)
    parts = {MINFER: triton_linear, EAGER: torch_linear.linear, COMPILED: torch.compile(torch_linear.linear, dynamic=False)}
    contenders = {name: lambda i, part=part: part(x, weights[i], None) for name, part in parts.items()}
    return Case("linear", f"1 token, {num_in} to {num_out}", num_bytes, 0, sets, contenders)


def sample(rows: int, vocab: int) -> Case:
    """Random rows, temperature 0.6, no filters."""
    from minfer.sample.triton import sample as triton_sample

    num_bytes = rows * vocab * 2
    sets = rotations(num_bytes)
    logits = random(sets, rows, vocab)
    asked = [(Sampling(SamplingParams(temperature=0.6), i, (), 0), 9, None) for i in range(rows)]
    batch = SimpleNamespace(sampling=torch_sample.sampling_tensors(asked, vocab, "cuda"))
    parts = {MINFER: triton_sample, EAGER: torch_sample.sample, COMPILED: torch.compile(torch_sample.sample, dynamic=False)}
    contenders = {name: lambda i, part=part: part(logits[i], batch) for name, part in parts.items()}
    return Case("sample", f"{rows} x {vocab}", num_bytes, 0, sets, contenders)
