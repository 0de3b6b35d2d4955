"""A `sample` part for `bench/soak.py`: the logits are shaken a little before they are sampled.

Requests whose tokens stay the same have no near ties. Only of those can one ask that every way of computing them gives the same.
"""

from __future__ import annotations

import torch

from minfer.sample import torch as plain

AMOUNT = 1e-4  # far more than float32 rounds differently from one batch to another, far less than what a wrong K or V does


def sample(logits: torch.Tensor, batch) -> torch.Tensor:
    """logits [S, V] → ids [S] int64, as `sample.torch` chooses them after each logit was moved by up to AMOUNT."""
    return plain.sample(logits + AMOUNT * (2 * torch.rand_like(logits) - 1), batch)
