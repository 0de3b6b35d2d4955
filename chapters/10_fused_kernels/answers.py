"""The numbers of chapter 10, computed: those of its self-checks and those that its text predicts."""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from minfer.activation.torch import silu_mul
from minfer.testing.suites.write_kv import build
from minfer.write_kv.torch import write_kv

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
TOKENS, MLP = 8192, 14336
FUSED, PLAIN = 3, 5  # values that SiLU times up moves for each that it gives; silu(gate) is written and read again
HEADS = 8  # that a program takes
VIEWS = {"split", "split_with_sizes", "unsqueeze", "view", "slice", "expand", "_unsafe_view", "transpose", "select", "alias"}


def activation_bytes() -> int:
    """8,192 tokens, intermediate size 14,336, bfloat16: bytes that SiLU times up must read and write?"""
    return FUSED * TOKENS * MLP * 2


def activation_ratio() -> float:
    """How many times as many bytes does the plain version move?"""
    return PLAIN / FUSED


def idle_heads() -> int:
    """9 query heads, 3 K/V heads, 8 heads a program: lanes of heads with nothing to do?"""
    heads = 9 + 2 * 3
    return math.ceil(heads / HEADS) * HEADS - heads


class _Launches(TorchDispatchMode):
    """Counts the operations of PyTorch that compute something; each is a kernel on a GPU."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ not in VIEWS
        return func(*args, **(kwargs or {}))


def _write_kv_launches(normed: bool) -> int:
    """Kernels of the plain write_kv on bfloat16."""
    sizes = {"heads": [9, 3], "tokens": 2, "head_dim": 64, "block_size": 4}
    case = {**sizes, "normed": normed, "layout": "contiguous", "dtype": "bfloat16", "seed": 0}
    (q, k, v, cos, sin, q_norm, k_norm), kv, slots = build(case)
    with _Launches() as launches:
        write_kv(q, k, v, cos, sin, kv, slots, q_norm, k_norm, 1e-5)
    return launches.count


def launches_plain() -> int:
    """Kernels of the plain write_kv in a model without q and k norms."""
    return _write_kv_launches(False)


def launches_with_norms() -> int:
    """The same with q and k norms."""
    return _write_kv_launches(True)


def launches_activation() -> int:
    """Kernels of the plain SiLU times up."""
    gate_up = torch.zeros(2, 8, dtype=torch.bfloat16)
    with _Launches() as launches:
        silu_mul(gate_up)
    return launches.count


def launches_saved() -> int:
    """Kernels that a step of 30 layers saves, without q and k norms."""
    return 30 * (launches_plain() - 1 + launches_activation() - 1)


def activation_us() -> float:
    """Microseconds for `activation_bytes` at the rate of a copy."""
    return activation_bytes() / copy_rate() * 1e6


def activation_plain_us() -> float:
    """The same for the plain version."""
    return activation_us() * activation_ratio()


def write_kv_us() -> float:
    """Microseconds for q, k and v of 8,192 tokens, 32 and 8 heads of 128 values in bfloat16, read and written once."""
    return 2 * TOKENS * (32 + 2 * 8) * 128 * 2 / copy_rate() * 1e6


def copy_rate() -> float:
    """Bytes a second that a copy reads and writes on the card of the kernel report."""
    return json.loads((RESULTS / "kernels-h200.json").read_text(encoding="utf-8"))["copy_gb_per_s"] * 1e9
