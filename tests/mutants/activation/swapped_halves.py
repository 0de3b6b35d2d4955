"""Fault: SiLU is applied to the second half."""

from __future__ import annotations

import torch.nn.functional as F


def mutant(gate_up):
    first, second = gate_up.chunk(2, dim=-1)
    return F.silu(second) * first
