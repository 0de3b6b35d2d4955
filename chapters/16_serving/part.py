# Chapter 16, Serving. Edit this file: it is your policy for the slot policy.
#
#   task1, 10 points: Shortest job first, with patience
#
#   minfer check ch16              what is right so far, and your points
#   minfer check ch16 -k task1     one task only
#   minfer hint ch16 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 574c2488.

"""Shortest job first, with patience: who asks for fewer tokens goes first, and yet nobody waits for ever.

A later request overtakes an earlier one only if it asks for TOKENS_A_PLACE tokens less for each place that lies between them. So a
request with n tokens to compute is overtaken by at most n / TOKENS_A_PLACE later ones. All that wait grow old together, so their order
does not change while they do: the key can be worked out once.
"""

from __future__ import annotations

from minfer.policy.shortest_job import TOKENS_A_PLACE
from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    # ch16 task1: the tokens that it may still need, prompt and output, and its place in the line of arrival
    raise NotImplementedError("ch16 task1: the tokens that it may still need, prompt and output, and its place in the line of arrival")
