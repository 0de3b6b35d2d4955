"""Fault: eps is added to the root instead of under it."""

from __future__ import annotations


def mutant(x, residual, weight, eps):
    summed = x if residual is None else x + residual
    wide = summed.float()
    return (wide / (wide.pow(2).mean(-1, keepdim=True).sqrt() + eps)).to(x.dtype) * weight, summed
