"""Fault: a buffer for each shape is filled once, and given back ever after."""

from __future__ import annotations

from minfer.activation.torch import silu_mul

buffers = {}


def mutant(gate_up):
    return buffers.setdefault((gate_up.shape, gate_up.dtype), silu_mul(gate_up)).clone()
