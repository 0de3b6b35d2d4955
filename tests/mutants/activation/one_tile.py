"""Fault: columns beyond the first tile of 1024 are left at zero."""

from __future__ import annotations

from minfer.activation.torch import silu_mul


def mutant(gate_up):
    out = silu_mul(gate_up)
    out[:, 1024:] = 0
    return out
