"""The numbers of chapter 5, computed: those of its self-checks and those that its text predicts."""

from __future__ import annotations

from minfer.course.toy_run import plans_of, tokens_by_step
from minfer.scheduler.chunked import ChunkedScheduler

FLOPS = 1e12  # of an imagined device, a second
BYTES = 1e11  # and what its memory gives, a second
PARAMETERS = 134.5e6  # of SmolLM2-135M


def _pieces() -> list[int]:
    """Tokens that each step computes of a prompt of 1,000 tokens, beside three decodes, with a budget of 256."""
    arrivals = [(0, 8, 40)] * 3 + [(5, 1000, 2)]
    steps = tokens_by_step(plans_of(ChunkedScheduler, arrivals, rows=4, budget=256))
    return [step[3] for step in steps if step.get(3, 0) > 1]


def steps_of_the_prompt() -> int:
    """The budget is 256, three sequences decode, and a prompt of 1,000 tokens comes: how many steps compute a piece of it?"""
    return len(_pieces())


def last_piece() -> int:
    """How many tokens of the prompt does the last of these steps compute?"""
    return _pieces()[-1]


def kv_read_factor() -> float:
    """A prompt of 1,024 tokens in pieces of 256 instead of whole: how many times as many tokens' K/V does its attention read?"""
    return sum(range(256, 1024 + 1, 256)) / 1024


def whole_step_ms() -> float:
    """Imagined device: ms of a step that computes a prompt of 1,000 tokens whole, beside three decodes."""
    return _step_ms(1003)


def piece_step_ms() -> float:
    """Imagined device: ms of a step of 256 tokens."""
    return _step_ms(256)


def decode_step_ms() -> float:
    """Imagined device: ms of a step of three decodes."""
    return _step_ms(3)


def knee() -> float:
    """Imagined device: tokens in a step at which arithmetic takes as long as reading the weights, float32."""
    return 4 * PARAMETERS / BYTES * FLOPS / (2 * PARAMETERS)


def _step_ms(tokens: int) -> float:
    """The longer of the two: reading all weights once, or two FLOPs a weight and token."""
    return 1e3 * max(4 * PARAMETERS / BYTES, 2 * PARAMETERS * tokens / FLOPS)
