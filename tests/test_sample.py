"""Slot `sample`: its suite over every part; extremes choose no banned token, and flags say what a step needs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from slot_suites import suite_test

from minfer.params import SamplingParams
from minfer.sample.torch import sampling_tensors
from minfer.testing.sampling import VOCAB, draw, draw_many, random_logits, row

INF = float("inf")

any_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0, 1e-5, 0.7, 1.0, 5.0]),
    top_k=st.sampled_from([0, -1, 1, 3, VOCAB, 10**9]),
    top_p=st.sampled_from([1e-9, 0.3, 0.9, 1.0]),
    min_p=st.sampled_from([0, 0.1, 1.0]),
    repetition_penalty=st.sampled_from([0.5, 1.0, 1.3]),
    presence_penalty=st.sampled_from([0, 0.5]),
    frequency_penalty=st.sampled_from([0, -0.5]),
    min_tokens=st.sampled_from([0, 7]),
    logit_bias=st.sampled_from([{}, {3: 5.0}, {5: -100, 9999: 1}]),
)
any_row = st.builds(
    row,
    any_params,
    seed=st.integers(-(2**63), 2**63 - 1),
    position=st.integers(4, 20),
    history=st.lists(st.integers(0, VOCAB - 1), min_size=4, max_size=12),
    stop_ids=st.sampled_from([(), (0, 7), tuple(range(VOCAB)), (9999,)]),
)


test_every_part_has_the_properties = suite_test("sample")


@settings(max_examples=100)
@given(st.lists(any_row, min_size=1, max_size=6), st.integers(0, 1000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_the_path_without_host_syncs_gives_the_same(rows, seed, dtype):
    """As on a GPU, where every row is computed as a random one."""
    logits = random_logits(seed, len(rows)).to(dtype)
    together = draw(logits, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minfer.sample.torch._random_rows", lambda temperature: slice(None))
        assert together == draw(logits, rows)


def test_ties_at_the_edge_of_a_filter_do_not_depend_on_batch_mates():
    """In a large vocabulary most rows need no full sort; of equal logits the same ones stay whether a mate needs one or not."""
    logits = torch.zeros(2, 3000)
    logits[0, ::2] = 1
    many = row(SamplingParams(top_p=0.9), seed=4)
    for seed in range(20):
        few = row(SamplingParams(top_k=5), seed)
        alone = draw(logits[:1], [few])
        assert alone == draw(logits, [few, many])[:1]
        assert alone[0] in {0, 2, 4, 6, 8}


def test_an_empty_batch():
    """A step may sample no row at all."""
    assert draw(torch.empty(0, VOCAB), []) == []


@pytest.mark.parametrize("temperature", [1e-5, 1e-3, 1.0, 1e30])
@pytest.mark.parametrize("filters", [{}, {"top_k": 5, "top_p": 0.5, "min_p": 0.1}, {"top_p": 1e-60}])
@pytest.mark.parametrize("largest", [10.0, 1e30, INF])
def test_extreme_logits_never_choose_a_banned_token(temperature, filters, largest):
    """With -inf, huge and +inf logits and any temperature, the choice is one of the possible tokens."""
    logits = torch.full((1, VOCAB), -INF)
    logits[0, [3, 4]] = largest
    logits[0, 5] = -largest
    for seed in range(20):
        assert draw(logits, [row(SamplingParams(temperature=temperature, **filters), seed)])[0] in {3, 4, 5}


@pytest.mark.parametrize("params", [{"temperature": 0}, {}, {"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.5}])
@pytest.mark.parametrize("value", [-INF, INF, math.nan])
def test_a_row_without_possible_tokens_gives_a_valid_id(params, value):
    """A row of -inf (all banned), +inf or NaN (a broken model) harms neither the engine nor its batch mates."""
    logits = random_logits(9, 2)
    logits[0] = value
    ids = draw(logits, [row(SamplingParams(**params)), row(SamplingParams(temperature=0))])
    assert 0 <= ids[0] < VOCAB
    assert ids[1] == logits[1].argmax()


def test_tiny_temperature_is_nearly_greedy():
    """At 1e-5 the likeliest token wins, without overflow."""
    logits = random_logits(10, scale=30.0)
    assert set(draw_many(logits, SamplingParams(temperature=1e-5), 3000).tolist()) == {logits.argmax().item()}


def test_flags_say_what_a_step_can_leave_out():
    """A greedy batch needs no noise, a plain one no filters, and min_tokens that are reached no edits."""

    def flags(*rows):
        tensors = sampling_tensors(list(rows), VOCAB, "cpu")
        return tensors.all_greedy, tensors.any_filter, [edit[0] for edit in tensors.edits]

    greedy, plain = row(SamplingParams(temperature=0)), row(SamplingParams())
    assert flags(greedy, row(SamplingParams(top_k=1, top_p=0.5))) == (True, False, [])
    assert flags(greedy, plain) == (False, False, [])
    assert flags(greedy, row(SamplingParams(top_k=VOCAB))) == (False, False, [])
    assert flags(greedy, row(SamplingParams(min_p=0.1))) == (False, True, [])
    assert flags(plain, row(SamplingParams(min_tokens=6), position=9), row(SamplingParams(min_tokens=5), position=9)) == (
        False,
        False,
        [1],
    )


def test_dtypes_and_shapes():
    """As `SamplingTensors` says."""
    tensors = sampling_tensors([row(SamplingParams(), seed=-(2**63)), row(SamplingParams(top_k=10**9))], VOCAB, "cpu")
    for name in ("temperature", "top_p", "min_p"):
        assert getattr(tensors, name).dtype == torch.float32
    for name in ("top_k", "seeds", "positions"):
        assert getattr(tensors, name).dtype == torch.int64
    assert tensors.top_k.tolist() == [VOCAB, VOCAB]
    assert tensors.seeds.tolist() == [-(2**63), 0]
