"""Each Triton kernel in Triton's interpreter, on a CPU. `test_triton_interpreted.py` runs this file in a process of its own, since
the interpreter must be chosen before Triton is imported.

float32 and float16 only: the interpreter computes bfloat16 wrongly. Races and the limits of real matrix units do not show here.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kernel_cases import (
    Draw,
    as_recorded,
    attention_case,
    check_activation,
    check_attention,
    check_linear,
    check_norm,
    check_write_kv,
    linear_case,
    norm_case,
)
from sampling_kernel_cases import check_sample, sample_case

from minfer.activation.triton import silu_mul
from minfer.attention import triton_decode, triton_paged, triton_tiles
from minfer.errors import MinferError
from minfer.executor.push import BLOCK, WORDS, Push
from minfer.inputs.triton import FusedInputs
from minfer.linear.triton import linear
from minfer.norm.triton import add_rms_norm
from minfer.params import SamplingParams
from minfer.sample import triton as triton_sample
from minfer.sample.noise import START, log_arrivals
from minfer.sample.torch import sampling_tensors
from minfer.testing.batches import LAYOUTS
from minfer.testing.checking import check
from minfer.testing.properties import Place
from minfer.testing.sampling import row
from minfer.testing.suites import suite_of
from minfer.write_kv.triton import write_kv

DTYPES = [torch.float32, torch.float16]
PAGES = [1, 4, 5, 16, 32, 64]


SEEDS = st.integers(0, 2**32 - 1)


def draw_case(draw: Draw, works: list[tuple[int, int]]):
    """The rest of a case: heads in groups of 1 to 8, pages and heads of any size, all layouts, both dtypes."""
    choose = draw.random.choice
    heads, D = choose([(1, 1), (2, 2), (4, 2), (3, 1), (4, 1), (7, 1), (8, 1)]), choose([8, 16, 24, 64])
    return attention_case(works, heads, D, choose(PAGES), choose(DTYPES), choose(LAYOUTS), draw.seed % 100)


@settings(max_examples=40, phases=[Phase.generate])  # a seed has nothing to shrink
@given(SEEDS)
def test_decode(seed):
    """Ragged contexts, any page, group, head size and window, whole or in splits that the shorter rows leave empty."""
    draw = Draw(seed, (*PAGES, 128), 150)
    works = draw.works(3, 0)
    shape = triton_decode.Shape(draw.random.choice([1, 2, 5]), draw.random.choice([32, 64]), 4, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_decode, "shape", lambda *sizes: shape)
        check_attention(triton_decode.attention, draw_case(draw, works), draw.window(works))


@settings(max_examples=25, phases=[Phase.generate])  # a seed has nothing to shrink
@given(SEEDS)
def test_paged(seed):
    """Mixed batches, with plain loads and with tensor descriptors, the chunks in one launch or in several, in all sizes of tiles."""
    draw = Draw(seed, (*PAGES, 128), 150)
    works = draw.works(2, 2)
    keys, engine, limit = draw.random.choice([32, 64, 128]), draw.random.random() < 0.5, draw.random.choice([1, 1 << 16])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_paged, "tiles", lambda *sizes: triton_tiles.Tiles(keys, keys, 4, 2))
        patch.setattr(triton_paged, "card", lambda device: triton_tiles.Card(engine, 1 << 17))
        patch.setattr(triton_paged, "MAX_ROWS", limit)
        check_attention(triton_paged.attention, draw_case(draw, works), draw.window(works))


@settings(max_examples=25, phases=[Phase.generate])  # a seed has nothing to shrink
@given(SEEDS)
def test_recorded_mixed(seed):
    """As a recorded step has it: lengths on the device only, padding rows and padding tokens behind the real ones."""
    draw = Draw(seed, (*PAGES, 128), 150)
    works = draw.works(2, 2)
    case = draw_case(draw, works)
    check_attention(
        lambda q, kv, batch, *rest: triton_paged.attention(*as_recorded(q, kv, batch, draw.random), *rest)[: len(q)],
        case, draw.window(works),
    )  # fmt: skip


@pytest.mark.parametrize("prop", suite_of("inputs"), ids=lambda prop: prop.name)
def test_inputs(prop):
    """The suite of the slot."""
    result = check(prop, FusedInputs, Place("cpu", True, 1), 20)
    assert result.passed, result


@settings(max_examples=10)
@given(
    tokens=st.sampled_from([0, 1, 3]),
    size=st.sampled_from([1, 48, 64, 100, 576]),
    dtype=st.sampled_from(DTYPES),
    adds=st.booleans(),
    eps=st.sampled_from([1e-6, 1e-2]),
    seed=st.integers(0, 99),
)
def test_norm(tokens, size, dtype, adds, eps, seed):
    """Both outputs, for widths that are a power of two and others, of rows that are part of wider ones."""
    check_norm(add_rms_norm, norm_case(tokens, size, dtype, seed), adds, eps)


@settings(max_examples=10)
@given(
    tokens=st.sampled_from([0, 1, 3]),
    size=st.sampled_from([1, 100, 1024, 1500]),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 99),
)
def test_activation(tokens, size, dtype, seed):
    """Sizes below, at and above one tile."""
    check_activation(silu_mul, tokens, size, dtype, seed)


@settings(max_examples=15)
@given(
    tokens=st.sampled_from([0, 1, 5]),
    heads=st.sampled_from([(1, 1), (2, 2), (4, 2), (7, 1), (8, 1)]),
    D=st.sampled_from([4, 8, 24, 64]),
    block_size=st.sampled_from([1, 3, 16]),
    dtype=st.sampled_from(DTYPES),
    normed=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 99),
)
def test_write_kv(tokens, heads, D, block_size, dtype, normed, layout, seed):
    """Rotated q, written slots, all others untouched; with and without q/k norm."""
    check_write_kv(write_kv, tokens, heads, D, block_size, dtype, normed, layout, seed)


@settings(max_examples=15)
@given(
    tokens=st.sampled_from([0, 1, 1, 1, 3]),
    num_in=st.sampled_from([1, 48, 512, 700, 2048, 2049, 3072, 5000]),
    num_out=st.sampled_from([1, 2, 7, 16]),
    dtype=st.sampled_from(DTYPES),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_linear(tokens, num_in, num_out, dtype, bias, seed):
    """Inputs of one block, of several and of a part of one; outputs that programs share evenly, and others."""
    check_linear(linear, linear_case(tokens, num_in, num_out, dtype, bias, seed))


@settings(max_examples=40, phases=[Phase.generate])
@given(
    rows=st.sampled_from([0, 1, 3, 6, 6]),
    vocab=st.sampled_from([1, 3, 255, 256, 257, 1000, 3000, 5000]),
    programs=st.sampled_from([1, 6, 4096]),
    dtype=st.sampled_from(DTYPES),
    spread=st.sampled_from([0.1, 3.0, 30.0]),
    seed=SEEDS,
)
def test_sample(rows, vocab, programs, dtype, spread, seed):
    """The ids of the PyTorch part, for greedy and random rows side by side, in slices of one tile and of several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_sample, "PROGRAMS", programs)
        check_sample(triton_sample.sample, sample_case(rows, vocab, dtype, seed, spread=spread))


@pytest.mark.parametrize("programs", [1, 4096])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_greedy_row_takes_the_first_of_equal_logits(programs, rows, monkeypatch):
    """Though every tile and every slice has one, alone and beside a random row."""
    monkeypatch.setattr(triton_sample, "PROGRAMS", programs)
    logits, batch = sample_case(rows, 5000, torch.float32)
    logits = logits.clamp(max=2)
    assert batch.sampling.all_greedy == (rows == 1)
    assert triton_sample.sample(logits, batch)[0] == logits[0].argmax()


@pytest.mark.parametrize("late", [0.01, -0.01])
def test_a_very_early_arrival_keeps_its_digits(late):
    """Token 0 of seed START and position 0 arrives at 1e-10, which 1 - v would round to nothing; it may be too late or just in time."""
    tensors = sampling_tensors([row(SamplingParams(), seed=START, position=0)], 300, "cpu")
    noise = log_arrivals(tensors.seeds, tensors.positions, 300)[0]
    assert noise[0] < -22
    logits = torch.zeros(1, 300)
    logits[0, 0] = noise[0] - noise[1:].min() - late
    expected = 1 + int(noise[1:].argmin()) if late > 0 else 0
    assert triton_sample.sample(logits, SimpleNamespace(sampling=tensors)).tolist() == [expected]


def test_rows_of_many_chunks_are_found():
    """A chunk behind more than 128 others still finds its rows of the copy."""
    case = attention_case([(2, 2)] * 130, (1, 1), 8, 4, torch.float32)
    check_attention(triton_paged.attention, case)


def test_caches_that_lie_differently_are_refused():
    """K and V of different strides: an error that names both, not wrong numbers."""
    q, (k, v), batch = attention_case([(1, 5)], (2, 2), 8, 4, torch.float32)
    with pytest.raises(MinferError, match=r"strides .* the same for both"):
        triton_decode.attention(q, (k, v.transpose(1, 2).contiguous().transpose(1, 2)), batch, 1.0, None)


@settings(max_examples=8)
@given(
    size=st.integers(2, 4),
    data=st.data(),
    shapes=st.lists(
        st.tuples(st.sampled_from(DTYPES), st.sampled_from([(1, 2), (3, 50), (1, 256), (2, 302), (1, 600)])), min_size=1, max_size=5
    ),
)
def test_push(size, data, shapes):
    """A rank's sums, call after call of different sizes: what the others would have sent lies in its inbox, and what it sends lies in
    theirs, numbered by program. The sum is rounded once."""
    rank = data.draw(st.integers(0, size - 1))
    inboxes = [torch.zeros(2, size, WORDS, dtype=torch.int64) for _ in range(size)]
    end = Push(rank, inboxes[rank], [inbox.data_ptr() for inbox in inboxes])
    end.patience = 3  # so that a wrong place is no endless loop
    random = torch.Generator().manual_seed(len(shapes))
    for dtype, shape in shapes:
        addends = [torch.randn(shape, generator=random).to(dtype) for _ in range(size)]
        letters = [addend.view(-1).view(torch.int32).long() & 0xFFFFFFFF for addend in addends]
        sent = []
        for begin in range(0, len(letters[0]), BLOCK):
            number, part = int(end.calls[begin // BLOCK]) + 1, slice(begin, min(begin + BLOCK, len(letters[0])))
            for other in range(size):
                if other != rank:
                    inboxes[rank][number & 1, other, part] = letters[other][part] | number << 32
            sent.append((number, part))
        total = addends[0].float()
        for addend in addends[1:]:
            total = total + addend.float()
        assert torch.equal(end.sum(addends[rank]), total.to(dtype))
        for other in range(size):
            for number, part in sent if other != rank else ():
                assert torch.equal(inboxes[other][number & 1, rank, part], letters[rank][part] | number << 32)
