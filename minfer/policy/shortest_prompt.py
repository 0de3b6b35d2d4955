"""Shortest prompt first: the mean time to the first token falls, and long prompts may wait for ever under load."""

from minfer.types import Sequence


def policy(seq: Sequence, context) -> tuple:
    return (seq.num_prompt, seq.seq_id)
