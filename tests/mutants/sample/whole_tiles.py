"""Fault: tokens behind the last whole tile of the vocabulary are never looked at."""

from __future__ import annotations

from minfer.sample.torch import sample

TILE = 256


def mutant(logits, batch):
    whole = logits.shape[1] // TILE * TILE
    return sample(logits[:, :whole] if whole else logits, batch)
