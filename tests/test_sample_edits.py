"""logit_bias, min_tokens and the penalties: which logits they change, and by how much."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import RepetitionPenaltyLogitsProcessor

from minfer.params import SamplingParams
from minfer.sample.edits import edit_logits
from minfer.sample.torch import sampling_tensors
from minfer.testing.sampling import VOCAB, draw, random_logits, row


def edited(logits, rows):
    """A copy of the logits after the edits."""
    logits = logits.clone()
    edit_logits(logits, sampling_tensors(rows, logits.shape[1], "cpu").edits)
    return logits


histories = st.lists(st.integers(0, VOCAB - 1), min_size=4, max_size=30)


@settings(deadline=None, max_examples=100)
@given(st.lists(histories, min_size=1, max_size=4), st.floats(0.2, 5), st.integers(0, 1000))
def test_repetition_penalty_equals_transformers(many_histories, penalty, seed):
    """Prompt and output count, once each, for rows of different lengths in one batch: as transformers' processor does it."""
    logits = random_logits(seed, len(many_histories))
    rows = [row(SamplingParams(repetition_penalty=penalty), history=history) for history in many_histories]
    processor = RepetitionPenaltyLogitsProcessor(penalty)
    expected = [processor(torch.tensor([ids]), logits[i : i + 1].clone())[0] for i, ids in enumerate(many_histories)]
    torch.testing.assert_close(edited(logits, rows), torch.stack(expected))


@settings(deadline=None, max_examples=100)
@given(histories, st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 1000))
def test_presence_and_frequency_count_the_output_only(history, presence, frequency, seed):
    """Each output token's logit falls by presence once and by frequency per occurrence; the prompt's stay."""
    logits = random_logits(seed)
    expected = logits[0].clone()
    for token in set(history[4:]):
        expected[token] -= presence + frequency * history[4:].count(token)
    rows = [row(SamplingParams(presence_penalty=presence, frequency_penalty=frequency), history=history)]
    torch.testing.assert_close(edited(logits, rows)[0], expected)


def test_penalties_follow_the_history():
    """A token just sampled counts at the next step: a greedy loop with a strong penalty never repeats itself."""
    logits, history = random_logits(12, scale=0.5), [1, 2, 3, 4]
    for _ in range(VOCAB // 2):
        params = SamplingParams(temperature=0, presence_penalty=2, frequency_penalty=2)
        history += draw(logits, [row(params, position=len(history), history=history)])
    assert len(set(history[4:])) == VOCAB // 2


def test_logit_bias():
    """It is added to the logit: +100 forces, -100 all but bans, ids that the model lacks are passed over; greedy or not."""
    logits = random_logits(13)
    best = logits.argmax().item()
    for temperature in (0, 1):
        assert draw(logits, [row(SamplingParams(temperature=temperature, logit_bias={"7": 100}))]) == [7]
        assert draw(logits, [row(SamplingParams(temperature=temperature, logit_bias={best: -100}))]) != [best]
    rows = [row(SamplingParams(logit_bias={7: 1.5, 5: -2, VOCAB: 100}))]
    expected = logits.clone()
    expected[0, 7] += 1.5
    expected[0, 5] -= 2
    torch.testing.assert_close(edited(logits, rows), expected)


@pytest.mark.parametrize("temperature", [0, 1])
def test_min_tokens_bans_stops_until_reached(temperature):
    """With a prompt of 4 and min_tokens=3, the stop tokens are impossible for the output's tokens 0, 1, 2 and likely for 3."""
    logits = torch.zeros(1, VOCAB)
    logits[0, [6, 7]] = 50
    params = SamplingParams(temperature=temperature, min_tokens=3, logit_bias={6: 100})
    for position, banned in [(4, True), (5, True), (6, True), (7, False), (50, False)]:
        ids = draw(logits, [row(params, position=position, stop_ids=(6, 7, 9999))])
        assert (ids[0] not in (6, 7)) is banned


def test_edits_of_one_row_leave_the_others():
    """Bias, bans and penalties of a row touch that row only."""
    logits = random_logits(14, 3)
    params = SamplingParams(logit_bias={1: 9}, min_tokens=9, repetition_penalty=2, presence_penalty=1)
    changed = edited(logits, [row(SamplingParams()), row(params, history=[1, 2, 3, 4, 5], stop_ids=(8,)), row(SamplingParams())])
    assert torch.equal(changed[[0, 2]], logits[[0, 2]])
    assert not torch.equal(changed[1], logits[1])
