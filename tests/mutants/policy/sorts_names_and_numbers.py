"""Fault: a request without priority is sorted by its user's name."""

from __future__ import annotations


def mutant(seq, context):
    return (seq.request.priority or seq.request.user, seq.seq_id)
