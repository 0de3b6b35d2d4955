"""Fault: of equal logits, a greedy row takes the last."""

from __future__ import annotations

import torch

from minfer.sample.torch import sample


def mutant(logits, batch):
    ids = sample(logits, batch)
    last = logits.shape[1] - 1 - logits.flip(-1).argmax(-1)
    return torch.where(batch.sampling.temperature == 0, last, ids) if not batch.sampling.edits else ids
