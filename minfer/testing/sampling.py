"""Rows to sample from and draws from them, for tests.

From: nothing. To: the tests of `sample` and of its pieces, and of any other part for that slot.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch

from minfer.params import SamplingParams
from minfer.sample.torch import sample, sampling_tensors
from minfer.types import Sampling

VOCAB = 64
INF = float("inf")
Row = tuple[Sampling, int, list[int] | None]


def row(
    params: SamplingParams,
    seed: int = 0,
    position: int = 9,
    history: list[int] | None = None,
    num_prompt: int = 4,
    stop_ids: tuple[int, ...] = (),
) -> Row:
    """One row as `sampling_tensors` takes it."""
    return Sampling(params, seed, stop_ids, num_prompt), position, history


def draw(logits: torch.Tensor, rows: list[Row], part=sample) -> list[int]:
    """One id per row, from a copy of logits [S, V], since a sample part may write to its logits."""
    tensors = sampling_tensors(rows, logits.shape[1], logits.device)
    return part(logits.clone(), SimpleNamespace(sampling=tensors)).tolist()


def draw_many(logits: torch.Tensor, params: SamplingParams, count: int, seed: int | None = None) -> torch.Tensor:
    """`count` draws from logits [1, V]: at consecutive positions of one seed, or with consecutive seeds where it is None."""
    rows = [row(params, i) if seed is None else row(params, seed, 4 + i) for i in range(count)]
    return torch.tensor(draw(logits.expand(count, -1), rows))


def random_logits(seed: int, rows: int = 1, vocab: int = VOCAB, scale: float = 3.0) -> torch.Tensor:
    """Normal logits [rows, vocab] float32."""
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * scale


def edited(logits: torch.Tensor, sampling: Sampling, position: int, history: list[int]) -> torch.Tensor:
    """One row after bias, min_tokens and penalties, in float64: each token's score on its own, as SamplingParams describes it."""
    scores, params = logits.double().cpu().clone(), sampling.params
    for token, amount in params.logit_bias:
        if token < len(scores):
            scores[token] += amount
    if position - sampling.num_prompt < params.min_tokens:
        for token in sampling.stop_ids:
            if token < len(scores):
                scores[token] = -INF
    for token in set(history):
        scores[token] *= params.repetition_penalty if scores[token] < 0 else 1 / params.repetition_penalty
    output = history[sampling.num_prompt :]
    for token in set(output):
        scores[token] -= params.presence_penalty + params.frequency_penalty * output.count(token)
    return scores


def allowed(scores: torch.Tensor, params: SamplingParams, slack: float = 0.0) -> set[int]:
    """The tokens that min_p, top_k and top_p leave, in this order, by a plain loop over float64 scores [V].

    slack: with a positive one tokens at the very edge stay, with a negative one they go: float32 may put them on either side.
    """
    probabilities = torch.softmax(scores.double() / params.temperature, -1)
    order, p = torch.sort(probabilities, descending=True, stable=True).indices.tolist(), probabilities.tolist()
    order = [token for token in order if p[token] >= params.min_p * p[order[0]] * (1 - slack)] or order[:1]
    if 0 < params.top_k < len(order):
        edge = p[order[params.top_k - 1]]
        order = [token for i, token in enumerate(order) if p[token] > edge * (1 - slack) or (slack <= 0 and i < params.top_k)]
    total, before, stay = sum(p[token] for token in order), 0.0, set()
    for token in order:
        if params.top_p < 1 and stay and before >= params.top_p * total * (1 + slack):
            break
        stay.add(token)
        before += p[token]
    return stay


def chi_square(draws: torch.Tensor, probabilities: torch.Tensor) -> float:
    """How far the counts of draws [N] are from their expectation, in standard deviations of the chi-square statistic.

    probabilities [V] float64. Cells that expect fewer than 8 draws are merged into one.
    """
    expected = probabilities * len(draws)
    counts = torch.bincount(draws, minlength=len(expected)).double()
    rare = expected < 8
    seen = torch.cat([counts[~rare], counts[rare].sum()[None]])
    wanted = torch.cat([expected[~rare], expected[rare].sum()[None]])
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    degrees = max(len(seen) - 1, 1)
    return (((seen - wanted) ** 2 / wanted).sum().item() - degrees) / (2 * degrees) ** 0.5
