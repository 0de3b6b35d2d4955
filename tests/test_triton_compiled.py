"""Each Triton kernel compiles to machine code for three generations of cards, on a machine without any: what the interpreter hides
(shapes of the matrix units, layouts, shared memory) shows here.

The parts launch their kernels as they always do; a stand-in for the driver has Triton compile them for another card and stop there.
"""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import torch
from kernel_cases import as_recorded, attention_case, linear_case, norm_case
from sampling_kernel_cases import sample_case

triton = pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from minfer import launch  # noqa: E402
from minfer.activation.triton import silu_mul  # noqa: E402
from minfer.attention import triton_decode, triton_paged, triton_tiles  # noqa: E402
from minfer.executor.push import WORDS, Push  # noqa: E402
from minfer.inputs.triton import FusedInputs  # noqa: E402
from minfer.linear import triton as triton_linear  # noqa: E402
from minfer.norm.triton import add_rms_norm  # noqa: E402
from minfer.params import SamplingParams  # noqa: E402
from minfer.sample import triton as triton_sample  # noqa: E402
from minfer.testing.batches import make_cache  # noqa: E402
from minfer.types import Plan, Sampling, Work  # noqa: E402
from minfer.write_kv.triton import write_kv  # noqa: E402

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
# Generation → bytes of shared memory that a program may have on the smallest card which runs its code.
SHARED = {80: 99 << 10, 90: 227 << 10, 100: 227 << 10}


@dataclass
class Compiler:
    """A driver of a card that is not there, and what was compiled for it."""

    generation: int
    kernels: list = field(default_factory=list)

    def get_current_target(self):
        return GPUTarget("cuda", self.generation, 32)

    def get_current_device(self) -> int:
        return 1000 + self.generation  # Triton keeps what it has compiled by device

    def get_current_stream(self, device: int) -> int:
        return 0

    def compile(self, function: JITFunction, *arguments, grid, **options) -> None:
        self.kernels.append((function.__name__, function.run(*arguments, grid=grid, warmup=True, **options)))


@pytest.fixture(params=SHARED, ids=lambda generation: f"sm_{generation}")
def compiler(request, monkeypatch):
    """Afterwards: everything that the test launched has machine code, and fits on the card. What begins early also waits."""
    compiler = Compiler(request.param)
    monkeypatch.setattr(triton.runtime.driver, "_active", compiler)
    monkeypatch.setattr(JITFunction, "__getitem__", lambda self, grid: functools.partial(compiler.compile, self, grid=grid))
    monkeypatch.setattr(triton_paged, "card", lambda device: triton_tiles.Card(request.param >= 90, SHARED[request.param]))
    monkeypatch.setattr(launch, "can_overlap", lambda device: request.param >= 90)
    yield compiler
    assert compiler.kernels
    for name, kernel in compiler.kernels:
        assert kernel.asm["cubin"], name
        assert kernel.metadata.shared <= SHARED[request.param], f"{name}: {kernel.metadata.shared} bytes of shared memory"
        before, waits, _ = kernel.asm["ptx"].partition("griddepcontrol.wait")
        assert kernel.metadata.launch_pdl == bool(waits), name
        assert not waits or "st.global" not in before, f"{name} writes before the kernel in front has ended"


def begins_early(compiler: Compiler) -> bool:
    """Whether the kernel that was compiled last can be put in place before the one in front has ended, where cards know how."""
    return compiler.kernels[-1][1].metadata.launch_pdl == (compiler.generation >= 90)


def ptx(compiler: Compiler, name: str) -> str:
    """The assembly of the kernel of that name that was compiled last."""
    return dict(compiler.kernels)[name].asm["ptx"]


DECODES = [  # heads, head size, block size, dtype, window, rows
    ((32, 8), 128, 16, BF16, None, 40),
    ((32, 8), 128, 16, BF16, 4096, 1),
    ((9, 3), 64, 16, BF16, None, 2),
    ((8, 8), 80, 64, FP16, None, 2),
    ((14, 2), 96, 5, BF16, None, 2),
    ((16, 1), 256, 16, BF16, None, 2),
    ((8, 2), 256, 16, FP32, None, 1),
    ((3, 1), 64, 4096, FP32, 7, 1),
]


@pytest.mark.parametrize("variant", DECODES, ids=str)
def test_decode_compiles(compiler, variant):
    """Every head size, dtype and page, whole and split; K and V of ordinary shapes come by wide asynchronous loads."""
    heads, D, block_size, dtype, window, rows = variant
    q, kv, batch = attention_case([(1, 3)] * rows, heads, D, block_size, dtype)
    triton_decode.attention(q, kv, batch, 1.0, window)
    assert begins_early(compiler)
    if D == 128:
        assert ptx(compiler, "decode").count("cp.async.cg.shared.global") >= 16
    assert ("merge" in dict(compiler.kernels)) == (rows < 32)


PREFILLS = [  # heads, head size, block size, dtype, window, new tokens
    ((32, 8), 128, 16, BF16, None, 100),
    ((32, 8), 128, 16, BF16, None, 4096),
    ((9, 3), 64, 16, BF16, 40, 100),
    ((14, 2), 96, 5, FP16, None, 100),
    ((16, 1), 256, 16, BF16, None, 4096),
    ((3, 1), 64, 4096, FP32, 7, 100),
    ((4, 2), 8, 16, BF16, None, 100),
]


@pytest.mark.parametrize("variant", PREFILLS, ids=str)
def test_prefill_compiles(compiler, variant):
    """Every head size, dtype and length; from Hopper on keys come by the copy engine."""
    heads, D, block_size, dtype, window, length = variant
    q, kv, batch = attention_case([(length, length)], heads, D, block_size, dtype)
    triton_paged.attention(q, kv, batch, 1.0, window)
    assert ("cp.async.bulk.tensor" in ptx(compiler, "prefill")) == (compiler.generation >= 90)
    if dtype != FP32:
        assert {80: "mma.sync", 90: "wgmma", 100: "tcgen05.mma"}[compiler.generation] in ptx(compiler, "prefill")


@pytest.mark.parametrize("variant", PREFILLS, ids=str)
def test_recorded_mixed_steps_compile(compiler, variant):
    """The same from pages, with lengths that only the device knows."""
    heads, D, block_size, dtype, window, _ = variant
    q, kv, batch = attention_case([(1, 3), (70, 90)], heads, D, block_size, dtype)
    triton_paged.attention(*as_recorded(q, kv, batch, random.Random(0)), 1.0, window)
    assert "gather" not in dict(compiler.kernels)
    if dtype != FP32 and D <= 128:
        assert {80: "mma.sync", 90: "wgmma", 100: "tcgen05.mma"}[compiler.generation] in ptx(compiler, "chunks")


@pytest.mark.parametrize(("size", "dtype", "adds"), [(4096, BF16, True), (576, FP16, True), (5000, FP32, False)])
def test_norm_compiles(compiler, size, dtype, adds):
    """Widths that are a power of two, and others."""
    x, residual, weight = norm_case(1, size, dtype)
    add_rms_norm(x, residual if adds else None, weight, 1e-5)
    assert begins_early(compiler)


@pytest.mark.parametrize(("D", "dtype", "normed"), [(128, BF16, True), (64, BF16, False), (80, FP32, True)])
def test_write_kv_compiles(compiler, D, dtype, normed):
    """With and without q/k norm."""
    q, k, v = torch.zeros(1, 16, D, dtype=dtype).split((12, 2, 2), dim=1)
    cos, sin = torch.zeros(1, D).chunk(2, dim=1)
    norms = [torch.ones(D, dtype=dtype)] * 2 if normed else [None, None]
    write_kv(q, k, v, cos, sin, make_cache(2, 16, 2, D, dtype), torch.tensor([3]), *norms, 1e-5)
    assert begins_early(compiler)


@pytest.mark.parametrize(("size", "dtype"), [(14336, BF16), (100, FP32)])
def test_activation_compiles(compiler, size, dtype):
    """Sizes of whole tiles, and others."""
    silu_mul(torch.zeros(1, 2 * size, dtype=dtype))
    assert begins_early(compiler)


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
@pytest.mark.parametrize(("rows", "vocab"), [(1, 151936), (256, 32000), (3, 100)])
def test_sample_compiles(compiler, rows, vocab, dtype):
    """One row and many, in a small vocabulary and a large one; random and greedy rows share the kernels."""
    triton_sample.sample(*sample_case(rows, vocab, dtype))
    assert begins_early(compiler)


@pytest.mark.parametrize(
    ("num_in", "num_out", "dtype", "bias"), [(1024, 6144, BF16, False), (100, 33, FP32, True), (5632, 2050, FP16, True)]
)
def test_linear_compiles(compiler, num_in, num_out, dtype, bias):
    """Sizes that blocks divide and others; weights of ordinary shapes come by the widest loads."""
    triton_linear.linear(*linear_case(1, num_in, num_out, dtype, bias))
    assert begins_early(compiler)
    assert num_in == 100 or "ld.global.v4" in ptx(compiler, "gemv")


def test_rows_to_sample_do_not_compile_anew(compiler):
    """Any number of rows, the greedy steps aside, is served by the two kernels that are there."""
    for rows in (2, 3, 17, 64, 256):
        triton_sample.sample(*sample_case(rows, 32000, BF16))
    hashes = {(name, kernel.hash) for name, kernel in compiler.kernels}
    assert sorted(name for name, _ in hashes) == ["pick", "race"]


def test_sizes_of_a_step_do_not_compile_anew(compiler):
    """Wider block tables, other numbers of rows, chunks and splits: the kernels that are there serve them."""
    for rows in ([(1, 3)] * 2 + [(5, 9)], [(1, 40)] * 3 + [(5, 9), (9, 16)], [(1, 300)] + [(30, 300)] * 2):
        q, kv, batch = attention_case(rows, (8, 2), 64, 16, BF16)
        triton_paged.attention(q, kv, batch, 1.0, None)
    made = {name: {kernel.hash for other, kernel in compiler.kernels if other == name} for name, _ in compiler.kernels}
    assert {name: len(hashes) for name, hashes in made.items() if name != "merge"} == {"decode": 1, "gather": 1, "prefill": 1}


def test_inputs_compile(compiler):
    """A decode step of many rows, and one with a chunk."""
    sizes = {"max_num_seqs": 300, "max_model_len": 4096, "max_num_batched_tokens": 512}
    config = SimpleNamespace(device=torch.device("cpu"), model=SimpleNamespace(vocab_size=50), **sizes)
    inputs, ask = FusedInputs(config, 16), Sampling(SamplingParams(), 3, (), 4)
    for count in (1, 40):
        work = [Work(row, row, 0, count, [1] * count, [row + 1], True, ask) for row in range(3)]
        inputs.expand(inputs.send(inputs.build(Plan(0, work))))
    assert {name for name, _ in compiler.kernels} == {"enter", "look_up"}


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
@pytest.mark.parametrize("size", [2, 3, 8])
def test_push(compiler, dtype, size):
    """Sums over two and more ranks. One row begins early; several do not."""
    end = Push(1, torch.zeros(2, size, WORDS, dtype=torch.int64), [0] * size)
    for rows in (1, 3):
        end.sum(torch.zeros(rows, 4096, dtype=dtype))
        assert begins_early(compiler) == (rows == 1 or compiler.generation < 90)
    assert "ld.volatile.global" in compiler.kernels[-1][1].asm["ptx"]
