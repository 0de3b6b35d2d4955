"""The answers of chapter 8, computed. A function's docstring is its question."""

from __future__ import annotations

import json
from pathlib import Path

import minfer
from minfer.runner.cuda_graph import buckets

LADDER = Path(minfer.__file__).parents[1] / "benchmarks" / "results" / "ladder-h200.json"


def _holding(rows: int, sizes: list[int]) -> int:
    """The smallest size that holds so many rows."""
    return next(size for size in sizes if size >= rows)


def padding_of_19() -> int:
    """The runner has recorded the sizes that it chooses for max_num_seqs = 64. A step has 19 rows. How many rows of padding?"""
    return _holding(19, buckets(64)) - 19


def sizes_of_256() -> int:
    """How many sizes does the runner record in advance for max_num_seqs = 256?"""
    return len(buckets(256))


def worst_padding() -> float:
    """Of all batches from 5 to 64 rows, which share of the computed rows is padding in the worst case, in percent?"""
    sizes = buckets(64)
    return max(100 * (1 - rows / _holding(rows, sizes)) for rows in range(5, 65))


def doubling_padding() -> float:
    """The same where only powers of two are recorded."""
    return max(100 * (1 - rows / _holding(rows, [1, 2, 4, 8, 16, 32, 64])) for rows in range(5, 65))


def _decode_of(stage: str) -> dict:
    """A stage's decode step of one sequence in the report of the ladder."""
    stages = json.loads(LADDER.read_text(encoding="utf-8"))["stages"]
    return next(each for each in stages if each["name"] == stage)["decode"][0]


def microseconds_per_launch() -> float:
    """In the stage fused-norm, how many microseconds of a decode step of one sequence come on each launch?"""
    step = _decode_of("fused-norm")
    return 1e3 * step["ms_per_step"] / step["launches_per_step"]


def device_ms() -> float:
    """How many milliseconds of that step is the device busy?"""
    step = _decode_of("fused-norm")
    return step["ms_per_step"] * step["gpu_busy"]


def speedup() -> float:
    """How many times as fast is a decode step of one sequence in the stage cuda-graphs as in fused-norm?"""
    before, after = _decode_of("fused-norm"), _decode_of("cuda-graphs")
    return before["ms_per_step"] / after["ms_per_step"]
