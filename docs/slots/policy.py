"""A policy: whoever ends with the fewest tokens goes first; of equals, who came first."""

from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    return (seq.limit, seq.seq_id)
