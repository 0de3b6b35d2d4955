"""Log-probabilities: the model's own, the asked-for token always among them, finite whatever the logits are."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.sample.logprobs import to_dicts, top_logprobs

VOCAB = 32
ids_of = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=5)


def logits_of(seed, rows):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(seed)) * 4


@settings(deadline=None, max_examples=100)
@given(ids_of, st.sampled_from([0, 1, 5, VOCAB, 99]), st.integers(0, 1000), st.sampled_from([torch.float32, torch.bfloat16]))
def test_values_are_log_softmax_of_the_raw_logits(ids, k, seed, dtype):
    """In float32 whatever the logits' type; the likeliest come first; k beyond the vocabulary is the vocabulary."""
    logits = logits_of(seed, len(ids)).to(dtype)
    expected = torch.log_softmax(logits.double(), -1)
    top = top_logprobs(logits, torch.tensor(ids), k)
    assert top.logprobs.dtype == top.top_logprobs.dtype == torch.float32
    assert top.top_ids.dtype == torch.int64
    assert top.top_ids.shape == top.top_logprobs.shape == (len(ids), min(k, VOCAB))
    rows = range(len(ids))
    torch.testing.assert_close(top.logprobs, expected[rows, ids].float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(top.top_logprobs, expected.sort(-1, descending=True).values[:, :k].float(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(top.top_logprobs, expected.gather(1, top.top_ids).float(), rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=100)
@given(ids_of, st.sampled_from([0, 1, 5, VOCAB]), st.integers(0, 1000), st.data())
def test_dicts_hold_the_token_first_and_then_the_likeliest(ids, k, seed, data):
    """Each row has the k entries that it wants, and one more where its own token is not among them; k=0 leaves the token's."""
    logits = logits_of(seed, len(ids))
    counts = data.draw(st.none() | st.lists(st.integers(0, k), min_size=len(ids), max_size=len(ids)))
    top = top_logprobs(logits, torch.tensor(ids), k)
    dicts = to_dicts(top, ids, counts)
    for i, (token, entry) in enumerate(zip(ids, dicts, strict=True)):
        wanted = k if counts is None else counts[i]
        likeliest = logits[i].argsort(descending=True)[:wanted].tolist()
        assert list(entry) == [token, *(other for other in likeliest if other != token)]
        assert len(entry) in (wanted, wanted + 1)
        assert entry[token] == top.logprobs[i].item()
        others = list(entry.values())[1:]
        assert others == sorted(others, reverse=True)


@pytest.mark.parametrize("fill", [float("-inf"), float("nan"), float("inf")])
def test_values_are_finite_json_numbers(fill):
    """-inf logits, and rows that a broken model has spoilt, give finite numbers: JSON knows no others."""
    logits = logits_of(1, 3)
    logits[0, ::2] = fill
    logits[1] = fill
    top = top_logprobs(logits, torch.tensor([0, 1, 2]), VOCAB)
    assert torch.isfinite(top.logprobs).all()
    assert torch.isfinite(top.top_logprobs).all()
    json.dumps(to_dicts(top, [0, 1, 2]), allow_nan=False)


def test_an_impossible_token_is_the_smallest_float():
    """The stand-in for log 0 is documented, and the rest of its row is untouched."""
    logits = logits_of(2, 1)
    logits[0, 4] = float("-inf")
    top = top_logprobs(logits, torch.tensor([4]), VOCAB)
    assert top.logprobs.item() == torch.finfo(torch.float32).min
    assert top.top_logprobs[0, :-1].exp().sum().item() == pytest.approx(1)


def test_logits_are_left_alone():
    """Scoring comes before or after other uses of the same logits."""
    logits = logits_of(3, 2)
    before = logits.clone()
    top_logprobs(logits, torch.tensor([0, 1]), 3)
    assert torch.equal(logits, before)
