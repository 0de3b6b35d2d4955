"""min_p, top_k and top_p: what they keep, how they combine, and how they are turned off."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.sample.filters import apply_filters, distances
from minfer.sample.torch import sampling_tensors
from minfer.testing.sampling import VOCAB, allowed, draw, draw_many, random_logits, row


def kept(logits, **params):
    """The tokens that 3000 draws can reach; with a flat enough distribution that is all that the filters leave."""
    return set(draw_many(logits, SamplingParams(**params), 3000, seed=11).tolist())


@settings(deadline=None, max_examples=200)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0, -1, 2, 3, 10, VOCAB - 1, VOCAB, VOCAB + 1, 10**9]),
    st.floats(0.05, 1),
    st.one_of(st.just(0.0), st.floats(0.001, 1)),
    st.floats(0.3, 3),
    st.sampled_from([1, 5, 1024]),
)
def test_filters_keep_what_they_should(seed, top_k, top_p, min_p, temperature, head):
    """All filters at once equal a plain fp64 loop, whether or not the cut falls within the sorted head."""
    params = SamplingParams(top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature)
    logits = random_logits(seed)
    tensors = sampling_tensors([row(params)], VOCAB, "cpu")
    d = distances(logits, tensors.temperature)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minfer.sample.filters.HEAD", head)
        apply_filters(d, tensors.top_k, tensors.top_p, tensors.min_p)
    assert set(d[0].isfinite().nonzero()[:, 0].tolist()) == allowed(logits[0], params)


def test_filters_reach_the_draws():
    """What the filters drop is never drawn, and all that they leave is."""
    logits = torch.linspace(0, 1, 10)[None]
    assert kept(logits) == set(range(10))
    assert kept(logits, top_k=3) == {7, 8, 9}
    assert kept(logits, min_p=0.75) == {8, 9, 7}
    assert kept(logits, top_p=0.25) == {8, 9}
    assert kept(logits, top_k=4, top_p=0.5) == {8, 9}


@pytest.mark.parametrize("vocab", [VOCAB, 5000])
def test_neutral_values_change_nothing(vocab):
    """Every way to say "off" gives the same draws, also beside a row whose filters are on."""
    logits = random_logits(8, vocab=vocab, scale=1.0).expand(2, -1)
    neutral = [{"top_k": k} for k in (-1, 0, vocab, vocab + 1, 10**9)] + [{"top_p": 1}, {"min_p": 0}]
    other = row(SamplingParams(top_k=2, top_p=0.5))
    for position in range(4, 40):
        ids = {draw(logits, [row(SamplingParams(**one), position=position), other])[0] for one in neutral}
        assert len(ids | set(draw(logits[:1], [row(SamplingParams(), position=position)]))) == 1


def test_top_p_one_keeps_what_float32_cannot_add():
    """Tokens too unlikely to change a sum stay all the same, though a neighbouring filter is on."""
    d = torch.arange(0.0, 400.0, 20.0)[None]
    apply_filters(d, torch.tensor([15]), torch.tensor([1.0]), torch.tensor([0.0]))
    assert d.isfinite().sum() == 15


def test_top_k_one_is_greedy_also_among_equals():
    """In bf16 the largest logits often tie: top_k=1 takes the first, as temperature=0 does."""
    logits = torch.zeros(2, VOCAB, dtype=torch.bfloat16)
    logits[:, [20, 30, 40]] = 1
    for seed in range(30):
        assert draw(logits, [row(SamplingParams(top_k=1), seed), row(SamplingParams(temperature=0), seed)]) == [20, 20]


def test_exactly_k_stay_among_equals():
    """A tie at the edge of top_k or top_p does not let more tokens in."""
    assert len(kept(torch.zeros(1, 10), top_k=3)) == 3
    assert len(kept(torch.zeros(1, 10), top_p=0.35)) == 4
