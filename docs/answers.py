"""The numbers of the pages in this folder that are computed and not measured."""

from __future__ import annotations

from minfer.course.toy_run import plans_of
from minfer.dummy import find_shape
from minfer.model_config import ModelConfig
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.traffic import logit_bytes, plan_bytes, sum_bytes

BFLOAT16 = 2  # bytes


def _llama() -> ModelConfig:
    return ModelConfig.load(find_shape("dummy:llama-8b"))


def _plan(rows: int) -> int:
    plans = plans_of(ChunkedScheduler, [(0, 8, 6)] * rows, rows=rows, budget=8 * rows, num_blocks=4 * rows)
    return plan_bytes(plans)[3]


def plan_of_one() -> int:
    """Bytes to each rank for a decode step of one sequence."""
    return _plan(1)


def plan_of_128() -> int:
    """Bytes to each rank for a decode step of 128 sequences."""
    return _plan(128)


def sums_of_one() -> float:
    """llama-8b: KiB that a rank brings to the sums of a step with one token."""
    return sum_bytes(_llama(), 1, BFLOAT16) / 2**10


def sums_of_128() -> float:
    """llama-8b: MiB that a rank brings to the sums of a step with 128 tokens."""
    return sum_bytes(_llama(), 128, BFLOAT16) / 2**20


def sums_of_2048() -> float:
    """llama-8b: MiB that a rank brings to the sums of a step with 2048 tokens, a prompt's chunk."""
    return sum_bytes(_llama(), 2048, BFLOAT16) / 2**20


def logits_of_one() -> float:
    """llama-8b on two ranks: KiB that a rank brings to the logits of one token."""
    return logit_bytes(_llama(), 1, 2, BFLOAT16) / 2**10


def logits_of_128() -> float:
    """llama-8b on two ranks: MiB that a rank brings to the logits of 128 tokens."""
    return logit_bytes(_llama(), 128, 2, BFLOAT16) / 2**20


def number_of_sums() -> int:
    """llama-8b: sums in a step."""
    return 2 * _llama().num_layers
