"""Bug museum, chapter 1: a sample part with one fault of a kind that engines have had. Find it before you read on.

    minfer check sample --part chapters/01_baseline/museum.py:sample
"""

from __future__ import annotations

import torch

from minfer.sample.edits import edit_logits
from minfer.sample.filters import apply_filters, distances
from minfer.sample.noise import log_arrivals
from minfer.types import Batch

COLDEST = 1e-5


def sample(logits: torch.Tensor, batch: Batch) -> torch.Tensor:
    """logits [S, V] → ids [S] int64, as batch.sampling asks."""
    sampling = batch.sampling
    logits = logits.float()
    if sampling.edits:
        edit_logits(logits, sampling.edits)
    if sampling.all_greedy:
        return logits.argmax(-1)
    d = distances(logits, sampling.temperature.clamp(min=COLDEST))
    if sampling.any_filter:
        apply_filters(d, sampling.top_k, sampling.top_p, sampling.min_p)
    d += log_arrivals(sampling.seeds, sampling.positions, d.shape[1])
    return d.argmin(-1)
