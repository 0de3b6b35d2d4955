"""Fault: the key follows what was served so far, and the policy does not say that it changes."""

from __future__ import annotations


def mutant(seq, context):
    return (context.served.get(seq.request.user, 0), seq.seq_id)
