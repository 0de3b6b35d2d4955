"""Fault: the second result is x without the residual."""

from __future__ import annotations

from minfer.norm.torch import add_rms_norm


def mutant(x, residual, weight, eps):
    return add_rms_norm(x.clone(), residual, weight, eps)[0], x
