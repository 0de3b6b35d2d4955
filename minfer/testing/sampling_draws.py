"""Draws from a part of the slot `sample`: one a row, and many of one row, whose filters must leave the right tokens.

From: `sampling_cases.py`. To: `minfer/testing/suites/sample.py`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from minfer.inputs.static_batch import SAMPLING
from minfer.params import SamplingParams
from minfer.sample.noise import log_arrivals
from minfer.sample.torch import sampling_tensors
from minfer.testing.properties import Case, device_of, dtype_of, expect, expect_tensor, untouched
from minfer.testing.sampling import INF, Row, allowed, row
from minfer.testing.sampling_cases import FILTERS

DRAWS = 48  # of one row
MARGIN = 1e-3  # scores closer than this are a tie: float32 may see either as the larger


def draw(part: Any, logits: torch.Tensor, asked: list[Row]) -> list[int]:
    """One id a row, from a copy of the logits."""
    sampling = sampling_tensors(asked, logits.shape[1], logits.device)
    with untouched(**{f"batch.sampling.{name}": getattr(sampling, name) for name in SAMPLING}):
        ids = part(logits.clone(), SimpleNamespace(sampling=sampling))
    expect_tensor(ids, torch.empty(len(asked), dtype=torch.int64, device=logits.device), "the ids")
    wrong = [token for token in ids.tolist() if not 0 <= token < logits.shape[1]]
    expect(not wrong, f"ids from 0 to {logits.shape[1] - 1}", wrong)
    return ids.tolist()


def check_filtered(part: Any, case: Case) -> None:
    logits = torch.randn(1, case["vocab"], generator=torch.Generator().manual_seed(case["seed"])) * case["spread"]
    logits, params = logits.to(device_of(case), dtype_of(case)), SamplingParams(**case["params"])
    scores = logits[0].double().cpu()
    sure, possible = (sorted(allowed(scores, params, slack)) for slack in (-1e-5, 1e-5))
    check_draws(part, logits, params, case["seed"], sure, possible)


def check_ties(part: Any, case: Case) -> None:
    """Of n equally likely tokens top_k k leaves k, and so does top_p k / n: exactly, since n is a power of two."""
    logits = torch.full((1, 64), -INF, device=device_of(case), dtype=dtype_of(case))
    logits[0, case["tokens"]] = case["value"]
    count = len(case["tokens"])
    kept = min(case["kept"], count - 1)
    params = SamplingParams(**{case["by"]: kept if case["by"] == "top_k" else kept / count})
    if params.greedy:  # top_k 1
        return
    check_draws(part, logits, params, case["seed"], case["tokens"][:kept], case["tokens"][:kept])


def check_draws(part: Any, logits: torch.Tensor, params: SamplingParams, seed: int, sure: list[int], possible: list[int]) -> None:
    """Draws at many positions of one seed: each is the winner among the tokens that stay. Those in `possible` alone may stay."""
    positions = torch.arange(4, 4 + DRAWS)
    ids = draw(part, logits.expand(DRAWS, -1), [row(params, seed, int(at)) for at in positions])
    scores = logits[0].double().cpu()
    times = log_arrivals(torch.full((DRAWS,), seed), positions, len(scores)).double() + (scores.max() - scores) / params.temperature
    stay = f"one of the {len(possible)} tokens that {params_of(params)} leaves: {possible[:12]}"
    for at, token, time in zip(positions.tolist(), ids, times, strict=True):
        expect(token in possible, stay, f"token {token} at position {at}, {rank_of(scores, token)} in likelihood")
        best = min(sure, key=lambda each: float(time[each]))
        expect(
            time[token] <= time[best] + MARGIN * (1 + abs(float(time[best]))),
            f"token {best} at position {at}, the first in the race of {possible[:12]}, which {params_of(params)} leaves",
            f"token {token}, which arrives later",
        )


def params_of(params: SamplingParams) -> str:
    return ", ".join(
        f"{name}={getattr(params, name):g}" for name in FILTERS if getattr(params, name) != getattr(SamplingParams(), name)
    )


def rank_of(scores: torch.Tensor, token: int) -> str:
    return f"number {int((scores > scores[token]).sum()) + 1} of {len(scores)}"
