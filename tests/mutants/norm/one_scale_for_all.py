"""Fault: rows after the first are scaled as the first one is."""

from __future__ import annotations


def mutant(x, residual, weight, eps):
    summed = x if residual is None else x + residual
    wide = summed.float()
    return (wide * wide[:1].pow(2).mean(-1, keepdim=True).add(eps).rsqrt()).to(x.dtype) * weight, summed
