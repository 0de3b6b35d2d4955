"""Fault: the rows of x are taken to lie one behind the other in memory."""

from __future__ import annotations

import torch

from minfer.linear.torch import linear


def mutant(x, weight, bias):
    return linear(torch.as_strided(x, x.shape, (x.shape[1], 1)), weight, bias)
