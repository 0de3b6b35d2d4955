"""Fault: for a single token, outputs that the programs do not share evenly stay as they were."""

from __future__ import annotations

import torch
import torch.nn.functional as F

ROWS = 4


def mutant(x, weight, bias):
    out = F.linear(x, weight, bias)
    if len(x) == 1 and len(weight) > ROWS:
        out[:, len(weight) // ROWS * ROWS :] = torch.nan
    return out
