"""Shortest job first, with patience: who asks for fewer tokens goes first, and yet nobody waits for ever.

A later request overtakes an earlier one only if it asks for TOKENS_A_PLACE tokens less for each place that lies between them. So a
request with n tokens to compute is overtaken by at most n / TOKENS_A_PLACE later ones. All that wait grow old together, so their order
does not change while they do: the key can be worked out once.
"""

from minfer.types import Sequence

TOKENS_A_PLACE = 16  # tokens that a later sequence must have less to compute, for each place


def policy(seq: Sequence, context) -> tuple:
    # ch16 task1: the tokens that it may still need, prompt and output, and its place in the line of arrival
    left = seq.limit - seq.num_computed
    return (left + TOKENS_A_PLACE * seq.seq_id, seq.seq_id)
    # end of ch16 task1
