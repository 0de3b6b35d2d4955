"""The numbers of chapter 6, computed: those of its self-checks and those that its text predicts."""

from __future__ import annotations

import json
import math
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
ROWS, CONTEXT = 64, 2048
QUERY_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128  # of an 8B Llama
VALUE_BYTES = 2  # of bfloat16
PROGRAMS = 256  # that fill the card


def kv_bytes() -> int:
    """64 sequences with 2,048 tokens of context each, 8 K/V heads of size 128 in bfloat16: bytes of K and V of one layer?"""
    return 2 * ROWS * CONTEXT * KV_HEADS * HEAD_DIM * VALUE_BYTES


def operations_per_byte() -> float:
    """32 query heads over 8 K/V heads in bfloat16: floating-point operations of the two products for each byte of K and V?"""
    operations = 2 * 2 * ROWS * CONTEXT * QUERY_HEADS * HEAD_DIM  # a multiplication and an addition, in two products
    return operations / kv_bytes()


def merged() -> float:
    """Two splits with the values 1 and 2 and the log2 of their sums 3 and 5: what does the merge give?"""
    parts = [(1.0, 3.0), (2.0, 5.0)]
    best = max(log for _, log in parts)
    return sum(value * 2 ** (log - best) for value, log in parts) / sum(2 ** (log - best) for _, log in parts)


def copy_rate() -> float:
    """Bytes a second that a copy reads and writes on the card of the kernel report."""
    return _report("kernels-h200")["copy_gb_per_s"] * 1e9


def floor_us() -> float:
    """Microseconds that the K and V of `kv_bytes` take at the rate of a copy."""
    return kv_bytes() / copy_rate() * 1e6


def gathered_us() -> float:
    """The same where K and V are copied out of the pages first, read and written, and then read again."""
    return 3 * floor_us()


def splits_of_four() -> int:
    """Four sequences of SmolLM2, which has 3 K/V heads: splits of each context?"""
    return math.ceil(PROGRAMS / (4 * 3))


def most_operations_per_byte() -> float:
    """Operations for each byte that the same card does in the prefill kernel, if memory gives it bytes at the rate of a copy."""
    prefill = next(each for each in _report("kernels-h200")["results"] if each["shape"] == "1 x 8192" and "prefill" in each["slot"])
    return prefill["contenders"][0]["tflop_per_s"] * 1e12 / copy_rate()


def launches_saved() -> float:
    """_Launches of a decode step of 64 sequences that the kernel does away with."""
    return _launches("chunked") - _launches("triton-attention")


def _launches(stage: str) -> float:
    found = next(each for each in _report("ladder-h200")["stages"] if each["name"] == stage)
    return next(each["launches_per_step"] for each in found["decode"] if each["batch"] == 64)


def _report(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
