"""Each Triton kernel on a GPU: what neither the interpreter nor the compiler alone can show. bfloat16, real matrix units, caches beyond
2³¹ elements, and recorded launches.

Shapes are few, since each new one is compiled; contexts are many.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from kernel_cases import (
    as_recorded,
    attention_case,
    batch_to,
    check_activation,
    check_attention,
    check_linear,
    check_norm,
    check_write_kv,
    linear_case,
    norm_case,
    poison,
    to_device,
)
from sampling_kernel_cases import check_sample, sample_case

from minfer.testing import reference
from minfer.testing.batches import make_batch

pytestmark = pytest.mark.gpu
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32

SHAPES = [  # heads, head size, block size, dtype, window, layout
    ((32, 8), 128, 16, BF16, None, "contiguous"),
    ((32, 8), 128, 16, BF16, 40, "k and v of a block side by side"),
    ((8, 2), 128, 16, FP32, None, "contiguous"),
    ((9, 3), 64, 16, BF16, None, "heads before tokens"),
    ((9, 3), 64, 64, FP16, 40, "contiguous"),
    ((8, 8), 80, 64, BF16, None, "contiguous"),
    ((14, 2), 96, 5, BF16, None, "k and v of a block side by side"),
    ((16, 2), 256, 16, FP16, None, "contiguous"),
    ((7, 1), 128, 1, BF16, None, "contiguous"),
    ((4, 2), 8, 256, FP32, 7, "heads before tokens"),
]
BATCHES = {
    "one token": [(1, 1)],
    "page edges and padding": [(1, 0), (1, 15), (1, 16), (1, 17), (1, 0), (1, 300)],
    "many rows": [(1, 1 + 37 * i % 90) for i in range(90)],
    "very many rows": [(1, 1 + 3 * i % 40) for i in range(260)],
    "decodes and chunks": [(1, 299), (1, 31), (1, 0), (17, 17), (70, 70), (5, 205), (130, 163)],
    "one prompt": [(200, 200)],
    "a later chunk": [(64, 128)],
}


def parts():
    from minfer.attention import triton_decode, triton_paged

    return {"triton_decode": triton_decode.attention, "triton_paged": triton_paged.attention}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention_equals_the_reference(shape):
    """Every group, head, page, dtype and layout, on decodes, chunks, mixed batches and padding; all else in the cache is NaN."""
    heads, D, block_size, dtype, window, layout = shape
    for seed, works in enumerate(BATCHES.values()):
        case = attention_case(works, heads, D, block_size, dtype, layout, seed)
        for part in parts().values():
            check_attention(part, case, window, device="cuda")
        if works[-1][0] > 1:
            check_attention(as_in_a_recording, case, window, device="cuda")


def as_in_a_recording(q, kv, batch, *rest):
    """A mixed step as a recorded one has it: padding behind it, and lengths on the device only."""
    q, kv, batch = as_recorded(q, kv, batch, random.Random(0))
    return parts()["triton_paged"](q, kv, batch, *rest)[: len(q)][: int(batch.query_start[-1])]


@pytest.mark.parametrize(("length", "window"), [(4500, None), (4500, 1000), (300, 100)])
def test_long_prompts_equal_torch(length, window):
    """The tiles of long prompts, in one launch and in several, against PyTorch's attention in float32."""
    from minfer.attention import triton_paged

    works, heads, D = [(length, length), (length // 3, length), (2, 50)], (8, 2), 128
    tables = [[1 + 1000 * row + page for page in range(-(-length // 16))] for row in range(3)]
    batch = make_batch([([0] * new, context - new) for new, context in works], tables, 16, device="cuda")
    kv = torch.randn(2, 3001, 16, heads[1], D, device="cuda", dtype=BF16)
    q = torch.randn(len(batch.token_ids), heads[0], D, device="cuda", dtype=BF16)
    outs = []
    for limit in (1 << 16, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(triton_paged, "MAX_ROWS", limit)
            with poison():
                outs.append(triton_paged.attention(q, (kv[0], kv[1]), batch, 0.1, window))
    first = 0
    for table, (new, context) in zip(tables, works, strict=True):
        keys, values = (cache[table].flatten(0, 1)[:context].transpose(0, 1)[None].float() for cache in kv)
        ago = torch.arange(context - new, context, device="cuda")[:, None] - torch.arange(context, device="cuda")
        mask = (ago >= 0) & (ago < (window or context))
        queries = q[first : first + new].transpose(0, 1)[None].float()
        expected = F.scaled_dot_product_attention(queries, keys, values, mask, scale=0.1, enable_gqa=True)[0].transpose(0, 1)
        for out in outs:
            reference.assert_close(out[first : first + new], expected.double())
        first += new


def test_caches_beyond_32_bits():
    """A block that begins beyond 2³¹ elements is read and written at its place."""
    from minfer.attention import triton_decode, triton_paged
    from minfer.write_kv.triton import write_kv

    q, kv, batch = attention_case([(1, 20), (40, 50)], (8, 2), 128, 16, BF16)
    far = (1 << 31) // (16 * 8 * 128) + 7
    whole = torch.empty(2, far + 16, 16, 8, 128, dtype=BF16, device="cuda")
    large = tuple(cache[..., :2, :] for cache in whole)  # strides of 8 heads, of which 2 are used
    for cache, small in zip(large, kv, strict=True):
        cache[far : far + len(small)] = small.cuda()
    moved = batch_to(replace(batch, block_tables=batch.block_tables + far, slots=batch.slots + 16 * far), "cuda")
    expected = reference.attention(q, kv, batch, 0.1, None)
    for part in (triton_decode, triton_paged):
        reference.assert_close(part.attention(q.cuda(), large, moved, 0.1, None).cpu(), expected)
    k = torch.randn(41, 2, 128, device="cuda", dtype=BF16)
    zero = torch.zeros(41, 64, device="cuda")
    write_kv(q.cuda(), k, k, zero + 1, zero, large, moved.slots, None, None, 1e-5)
    for cache in large:
        assert torch.equal(cache[moved.slots // 16, moved.slots % 16], k)


def test_a_recorded_decode_follows_its_contexts():
    """One recorded launch serves contexts and tables that change after it was recorded, down to padding."""
    from minfer.attention import triton_decode

    rows = 5
    cases = [attention_case([(1, each) for each in contexts], (8, 2), 64, 16, BF16, seed=len(contexts))
             for contexts in ([1] * rows, [500, 3, 17, 16, 90], [0, 0, 40, 1, 500])]  # fmt: skip
    blocks = max(len(kv[0]) for _, kv, _ in cases)
    kv = torch.full((2, blocks, 16, 2, 64), float("nan"), dtype=BF16, device="cuda")
    q = torch.empty(rows, 8, 64, dtype=BF16, device="cuda")
    static = batch_to(cases[0][2], "cuda")
    static = replace(static, block_tables=torch.zeros(rows, 40, dtype=torch.int32, device="cuda"))

    def load(case) -> None:
        queries, caches, batch = case
        q.copy_(queries)
        static.block_tables[:, : batch.block_tables.shape[1]] = batch.block_tables.cuda()
        static.context_lens.copy_(batch.context_lens)
        for cache, source in zip(kv, caches, strict=True):
            cache[: len(source)] = source.cuda()

    load(cases[0])
    triton_decode.attention(q, (kv[0], kv[1]), static, 0.1, None)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = triton_decode.attention(q, (kv[0], kv[1]), static, 0.1, None)
    for case in cases:
        load(case)
        graph.replay()
        reference.assert_close(out.cpu(), reference.attention(case[0], case[1], case[2], 0.1, None))


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
def test_norm_equals_the_reference(dtype):
    """Widths that are a power of two and others, with and without a residual, one row and many."""
    from minfer.norm.triton import add_rms_norm

    for size in (64, 576, 4096):
        for tokens in (0, 1, 300):
            for adds in (False, True):
                check_norm(add_rms_norm, norm_case(tokens, size, dtype), adds, 1e-5, "cuda")


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
def test_activation_equals_the_reference(dtype):
    """Sizes of whole tiles and others, one row and many."""
    from minfer.activation.triton import silu_mul

    for size in (100, 1536, 14336):
        for tokens in (0, 1, 33):
            check_activation(silu_mul, tokens, size, dtype, device="cuda")


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
@pytest.mark.parametrize(
    ("heads", "D", "block_size", "layout"),
    [((32, 8), 128, 16, "contiguous"), ((9, 3), 64, 5, "heads before tokens"), ((7, 1), 80, 1, "k and v of a block side by side")],
)
def test_write_kv_equals_the_reference(heads, D, block_size, layout, dtype):
    """With and without q/k norm; slots that belong to no token stay NaN."""
    from minfer.write_kv.triton import write_kv

    for normed in (False, True):
        for tokens in (0, 1, 70):
            check_write_kv(write_kv, tokens, heads, D, block_size, dtype, normed, layout, device="cuda")


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
def test_linear_equals_the_reference(dtype):
    """One token, in blocks that divide the inputs and others, few outputs and many; several tokens too."""
    from minfer.linear.triton import linear

    for num_in, num_out in [(1024, 1024), (2048, 2050), (3072, 7), (4096, 9001), (5632, 33), (100, 1)]:
        for tokens in (0, 1, 2):
            check_linear(linear, linear_case(tokens, num_in, num_out, dtype, bias=num_out % 2 == 1), "cuda")


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32], ids=str)
def test_sample_equals_torch(dtype):
    """Greedy and random rows, few and many, flat and peaked logits, vocabularies of one tile and of hundreds."""
    from minfer.sample.triton import sample

    for vocab in (1, 300, 32000, 151936):
        for rows in (0, 1, 3, 200):
            for spread in (0.1, 3.0, 20.0):
                check_sample(sample, sample_case(rows, vocab, dtype, rows, "cuda", spread))


def test_caches_keep_their_layout_on_the_device():
    """The helper of these tests moves caches without making them contiguous."""
    _, kv, _ = attention_case([(1, 5)], (2, 2), 8, 4, FP32, "heads before tokens")
    for ours, theirs in zip(kv, to_device(kv, "cuda"), strict=True):
        assert ours.stride() == theirs.stride()
        assert torch.equal(ours.nan_to_num(7), theirs.cpu().nan_to_num(7))
