"""Fault: the sequences that moved are not told to the engine."""

from __future__ import annotations

from minfer.loop.plain import loop


def mutant(scheduler, executor):
    for _ in loop(scheduler, executor):
        yield []
