"""Fault: the sigmoid is exp(x) / (1 + exp(x)), which is infinity by infinity for large x."""

from __future__ import annotations


def mutant(gate_up):
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (gate * gate.exp() / (1 + gate.exp()) * up).to(gate_up.dtype)
