"""First come, first served: requests run in the order in which they arrived. It starves nobody."""

from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    return (seq.seq_id,)
