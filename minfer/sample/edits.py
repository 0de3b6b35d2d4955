"""What changes the logits themselves, for greedy rows too: logit_bias, min_tokens and the penalties.

From: the model's logits and `SamplingTensors.edits`. To: the greedy choice, or temperature and filters.
"""

from __future__ import annotations

import torch

from minfer.types import Sampling


def edit_logits(logits: torch.Tensor, edits: list[tuple[int, Sampling, list[int]]]) -> None:
    """Apply every row's edits to logits [S, V] float32, in place.

    An edit is (row, sampling, history): `sampling.stop_ids` are banned, and `history` is the sequence's known tokens, prompt
    first. Ids that the logits do not reach are passed over: the model cannot choose them anyway.
    """
    for row, sampling, history in edits:
        scores = logits[row]
        add_bias(scores, sampling.params.logit_bias)
        ban(scores, sampling.stop_ids)
        if sampling.params.needs_history:
            penalize(scores, sampling, history)


def add_bias(scores: torch.Tensor, bias: tuple[tuple[int, float], ...]) -> None:
    """Add each pair's number to its token's score; scores [V] float32, in place."""
    pairs = [(token, amount) for token, amount in bias if token < len(scores)]
    if pairs:
        tokens, amounts = zip(*pairs, strict=True)
        scores[torch.tensor(tokens, device=scores.device)] += torch.tensor(amounts, device=scores.device)


def ban(scores: torch.Tensor, stop_ids: tuple[int, ...]) -> None:
    """These tokens cannot be chosen; scores [V] float32, in place."""
    tokens = [token for token in stop_ids if token < len(scores)]
    if tokens:
        scores[torch.tensor(tokens, device=scores.device)] = float("-inf")


def penalize(scores: torch.Tensor, sampling: Sampling, history: list[int]) -> None:
    """The three penalties; scores [V] float32, in place.

    Repetition (Keskar et al., CTRL, 2019) looks at prompt and output: a positive score is divided, a negative one multiplied,
    once however often the token occurs. Frequency and presence, the OpenAI API's, look at the output only.
    """
    params = sampling.params
    known = torch.tensor(history, dtype=torch.int64, device=scores.device)
    if params.repetition_penalty != 1:
        old = scores[known]
        penalty = params.repetition_penalty
        scores[known] = torch.where(old < 0, old * penalty, old / penalty)
    if params.frequency_penalty or params.presence_penalty:
        counts = torch.zeros_like(scores)
        output = known[sampling.num_prompt :]
        counts.index_add_(0, output, torch.ones_like(output, dtype=scores.dtype))
        scores -= params.frequency_penalty * counts + params.presence_penalty * (counts > 0)
