"""The noise: draws follow the softmax, are independent, and depend on seed, position and token only."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.sample.noise import derive_seed, log_arrivals, mix, random_words
from minfer.testing.sampling import chi_square, draw, draw_many, random_logits, row


@pytest.mark.parametrize("by", ["position", "seed"])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(by, temperature):
    """Chi-square of 20,000 draws over positions, or over neighbouring seeds.

    Nothing differs from run to run, so there are no false alarms: a failure means that the generator or the race has changed.
    """
    logits = random_logits(1, vocab=40, scale=1.5)
    draws = draw_many(logits, SamplingParams(temperature=temperature), 20_000, seed=123 if by == "position" else None)
    assert chi_square(draws, torch.softmax(logits[0].double() / temperature, -1)) < 4


@pytest.mark.parametrize("by", ["position", "seed"])
def test_neighbouring_draws_are_independent(by):
    """Pairs of consecutive draws, 20,000 of them, are spread over the table of pairs as the product of the probabilities."""
    logits = random_logits(2, vocab=12, scale=1.0)
    draws = draw_many(logits, SamplingParams(), 20_001, seed=7 if by == "position" else None)
    p = torch.softmax(logits[0].double(), -1)
    assert chi_square(draws[:-1] * 12 + draws[1:], torch.outer(p, p).flatten()) < 4


def test_completions_of_one_request_are_independent():
    """The seeds of a request's n completions give independent draws; the first completion keeps the request's seed."""
    logits = random_logits(3, vocab=12, scale=1.0)
    pairs = [(derive_seed(seed, 0), derive_seed(seed, 1)) for seed in range(10_000)]
    assert all(first == seed for seed, (first, _) in enumerate(pairs))
    rows = [row(SamplingParams(), seed) for pair in pairs for seed in pair]
    draws = torch.tensor(draw(logits.expand(len(rows), -1), rows)).view(-1, 2)
    p = torch.softmax(logits[0].double(), -1)
    assert chi_square(draws[:, 0] * 12 + draws[:, 1], torch.outer(p, p).flatten()) < 4


@settings(deadline=None, max_examples=100)
@given(st.integers(-(2**63), 2**63 - 1))
def test_derived_seeds_are_distinct_and_fit(seed):
    """Whatever the seed, 100 completions have 100 signed 64-bit seeds."""
    seeds = [derive_seed(seed, index) for index in range(100)]
    assert len(set(seeds)) == 100
    assert all(-(2**63) <= derived < 2**63 for derived in seeds)


def test_requests_with_neighbouring_seeds_share_no_completion():
    """The n-th completion of one seed is not the (n-1)-th of the next."""
    assert len({derive_seed(seed, index) for seed in range(50) for index in range(50)}) == 50 * 50


def test_every_bit_of_the_noise_is_balanced():
    """Over tokens, positions and both halves of the seed, each of the 32 bits is set half of the time (within 5 deviations)."""
    ramp = torch.arange(256)
    fixed = torch.full_like(ramp, 5)
    for seeds, positions in [(fixed, ramp), (ramp, fixed), (ramp << 32, fixed)]:
        words = random_words(seeds, positions, 256)
        share = torch.stack([(words >> bit & 1).double().mean() for bit in range(32)])
        assert (share - 0.5).abs().max() < 5 * 0.5 / 256


@pytest.mark.parametrize("seed", [0, 1, -1, 2**32, 2**63 - 1])
def test_no_token_is_favoured_where_seed_and_position_are_small_numbers(seed):
    """Of 200 positions' earliest tokens few are alike, few are the position itself, and none is far earlier than chance has it.

    A token is earlier than exp(-16) with probability 1.1e-7, so among 200 * 4096 tokens one is in one run of eleven; at exp(-20), in
    one of six hundred.
    """
    positions = torch.arange(200)
    earliest, tokens = log_arrivals(torch.full_like(positions, seed), positions, 4096).min(-1)
    assert (tokens == positions).sum() <= 2
    assert len(set(tokens.tolist())) > 180
    assert earliest.min() > -20


@settings(deadline=None, max_examples=50)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**31), st.integers(0, 63))
def test_noise_depends_on_every_bit_of_the_seed(seed, position, bit):
    """Flipping any of the seed's 64 bits, or moving on by one position, changes the noise; the vocabulary's size does not."""
    other = seed ^ (1 << bit) if bit < 63 else seed ^ -(2**63)
    words = random_words(torch.tensor([seed, other, seed]), torch.tensor([position, position, position + 1]), 8)
    assert not torch.equal(words[0], words[1])
    assert not torch.equal(words[0], words[2])
    assert torch.equal(random_words(torch.tensor([seed]), torch.tensor([position]), 5)[0], words[0, :5])


def test_the_hash_is_the_documented_one():
    """The 32-bit arithmetic equals plain integers', so that another device, or a kernel, can repeat it."""

    def reference(x):
        x = (x ^ x >> 16) * 0x7FEB352D % 2**32
        x = (x ^ x >> 15) * 0x846CA68B % 2**32
        return x ^ x >> 16

    numbers = [0, 1, 2, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 0x12345678]
    signed = torch.tensor(numbers).to(torch.int32)
    assert [word % 2**32 for word in mix(signed).tolist()] == [reference(number) for number in numbers]
    seed, position = -(2**40) - 3, 77
    key = reference(reference(reference(seed % 2**32 ^ 0x9E3779B9) ^ (seed >> 32) % 2**32) ^ position)
    expected = [reference(key ^ reference(token)) for token in range(20)]
    assert [word % 2**32 for word in random_words(torch.tensor([seed]), torch.tensor([position]), 20)[0].tolist()] == expected


def test_noise_is_finite_at_both_ends(monkeypatch):
    """The smallest and the largest hash give finite noise: no token is chosen, or shut out, for ever."""
    words = torch.tensor([[0, 1, -1, -2, 2**31 - 1, -(2**31)]], dtype=torch.int32)
    monkeypatch.setattr("minfer.sample.noise.random_words", lambda *_: words)
    noise = log_arrivals(torch.tensor([0]), torch.tensor([0]), 6)
    assert noise.isfinite().all()
    assert noise[0, 0] == pytest.approx(math.log(2.0**-33), abs=1e-4)
    assert noise[0, 4] == pytest.approx(math.log(math.log(2)), abs=1e-4)
