"""Fault: the product for a single token has no bias."""

from __future__ import annotations

import torch.nn.functional as F


def mutant(x, weight, bias):
    return F.linear(x, weight, None if len(x) == 1 else bias)
