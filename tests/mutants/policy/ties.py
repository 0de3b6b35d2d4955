"""Fault: requests of equal priority have equal keys."""

from __future__ import annotations


def mutant(seq, context):
    return (seq.request.priority,)
