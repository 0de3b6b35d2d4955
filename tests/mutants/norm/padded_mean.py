"""Fault: the mean divides by the row's size rounded up to a power of two."""

from __future__ import annotations


def mutant(x, residual, weight, eps):
    summed = x if residual is None else x + residual
    wide, padded = summed.float(), 1 << (x.shape[1] - 1).bit_length()
    return (wide * (wide.pow(2).sum(-1, keepdim=True) / padded + eps).rsqrt()).to(x.dtype) * weight, summed
