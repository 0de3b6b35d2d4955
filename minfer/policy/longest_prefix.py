"""Longest cached prefix first: what is in the cache now is used before it is evicted. Of equals, the oldest runs first."""

from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    return (-context.blocks.lookup(seq), seq.seq_id)


policy.changes = True
