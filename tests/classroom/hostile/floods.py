"""Prints without end, and answers with far more than was asked for."""

import sys

import torch

sys.stdout.write("x" * (1 << 26))
sys.stderr.write("y" * (1 << 26))


def silu_mul(gate_up):
    return torch.zeros(1 << 28, dtype=torch.int8)
