"""Fault: inputs are read in pairs, and the last one of an odd number is left out."""

from __future__ import annotations

import torch.nn.functional as F


def mutant(x, weight, bias):
    even = x.shape[1] // 2 * 2
    return F.linear(x[:, :even], weight[:, :even], bias)
