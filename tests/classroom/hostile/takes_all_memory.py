"""Asks for memory without end."""

import torch

kept = []


def silu_mul(gate_up):
    while True:
        kept.append(torch.ones(1 << 26))
