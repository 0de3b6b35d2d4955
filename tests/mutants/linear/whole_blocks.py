"""Fault: for a single token, inputs behind the last whole block are left out."""

from __future__ import annotations

import torch.nn.functional as F

BLOCK = 64


def mutant(x, weight, bias):
    size = x.shape[1]
    whole = size // BLOCK * BLOCK if len(x) == 1 and size > BLOCK else size
    return F.linear(x[:, :whole], weight[:, :whole], bias)
