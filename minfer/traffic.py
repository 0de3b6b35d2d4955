"""What crosses between devices in a step of tensor parallelism, in bytes: sums in the layers, logits at the end, and the plan.

From: a model's shape and a step's size. To: the pages on many devices; `tests/test_traffic.py` counts the real thing.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable

from minfer.executor.rank import Rank
from minfer.executor.shorthand import Writer
from minfer.model_config import ModelConfig
from minfer.types import Plan


def sum_bytes(model: ModelConfig, tokens: int, itemsize: int) -> int:
    """Bytes that each rank brings to the sums of one step: two a layer, each of the hidden states of the step's new tokens."""
    return 2 * model.num_layers * tokens * model.hidden_size * itemsize


def logit_bytes(model: ModelConfig, rows: int, size: int, itemsize: int) -> int:
    """Bytes that each of `size` ranks brings to the logits of a step that samples `rows` tokens."""
    return rows * -(-model.vocab_size // size) * itemsize


def plan_bytes(plans: Iterable[Plan]) -> list[int]:
    """Of each plan of a run, in order: the bytes that go to each rank. Nothing comes back but rank 0's sampled tokens."""
    writer = Writer()
    messages = ((step, Rank.launch, (step, writer.write(plan))) for step, plan in enumerate(plans, start=1))
    return [len(pickle.dumps(message, pickle.HIGHEST_PROTOCOL)) for message in messages]
