"""Fault: the squares are taken in the dtype of x: in float16, values above 255 overflow."""

from __future__ import annotations


def mutant(x, residual, weight, eps):
    summed = x if residual is None else x + residual
    return summed * (summed * summed).mean(-1, keepdim=True).add(eps).rsqrt() * weight, summed
