"""Bug museum, chapter 16: a policy with one fault of a kind that services have had. Find it before you read on.

minfer check ch16 museum.py
"""

from __future__ import annotations

from minfer.types import Sequence

TOKENS_A_PLACE = 16  # tokens that a later sequence must have less to compute, for each place


def policy(seq: Sequence, context) -> tuple:
    """Shortest job first, with patience."""
    left = seq.limit - seq.num_tokens
    return (left + TOKENS_A_PLACE * seq.seq_id, seq.seq_id)
