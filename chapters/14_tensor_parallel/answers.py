"""The answers of chapter 14, computed."""

from __future__ import annotations

import json
from pathlib import Path

from minfer.dummy import find_shape
from minfer.model_config import ModelConfig
from minfer.traffic import sum_bytes


def _model(name: str) -> ModelConfig:
    return ModelConfig.load(find_shape(f"dummy:{name}"))


def kv_heads_of_sixteen() -> int:
    """32 query heads and 8 K/V heads on 16 ranks: K/V heads on each."""
    query_heads_of_a_rank, heads_that_share = 32 // 16, 32 // 8
    return max(1, query_heads_of_a_rank // heads_that_share)


def sum_kib() -> float:
    """llama-8b, bfloat16: KiB that a rank brings to the sums of a step with one token."""
    return sum_bytes(_model("llama-8b"), 1, 2) / 1024


def step_ms() -> float:
    """6 ms, of which 5.5 are halved; 64 sums of 10 microseconds."""
    return 0.5 + 5.5 / 2 + 64 * 0.010


def sums_of_a_step() -> int:
    """How many sums a step of llama-8b has."""
    return 2 * _model("llama-8b").num_layers


def batch_sum_mib() -> float:
    """llama-8b, bfloat16: MiB that a rank brings to the sums of a step with 128 tokens."""
    return sum_bytes(_model("llama-8b"), 128, 2) / 2**20


def weights_gib() -> float:
    """llama-8b, bfloat16: GiB of weights that a decode step reads on one device, all but the embeddings."""
    return _read(_model("llama-8b"), 1) * 2 / 2**30


def half_weights_gib() -> float:
    """The same on each of two devices."""
    return _read(_model("llama-8b"), 2) * 2 / 2**30


def _read(model: ModelConfig, size: int) -> float:
    """Weights that one of `size` ranks reads in a decode step. Norms are too few to count."""
    D, H = model.head_dim, model.hidden_size
    layer = 2 * model.num_heads * D * H + 2 * model.num_kv_heads * D * H + 3 * model.intermediate_size * H
    return (model.num_layers * layer + model.vocab_size * H) / size


def achieved_tb() -> float:
    """llama-8b on one H200: TB/s at which a decode step of one sequence reads the weights, from the time that was measured."""
    return weights_gib() * 2**30 / _measured_ms() / 1e9


def predicted_ms() -> float:
    """llama-8b on two H200s: ms of a decode step of one sequence, if half of the bytes take half of the time and sums took none."""
    return _measured_ms() / 2


def _measured_ms() -> float:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "latency-llama-8b-h200.json"
    return next(each["tpot_ms"] for each in json.loads(path.read_text())["results"] if each["prompt_tokens"] == 512)
