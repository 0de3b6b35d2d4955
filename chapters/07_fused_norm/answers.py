"""The numbers of chapter 7, computed: those of its self-checks and those that its text predicts."""

from __future__ import annotations

import json
from pathlib import Path

from minfer.dummy import SHAPES

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
ROWS, WIDTH = 8192, 4096
LAUNCHES = 9  # of the plain norm: add, to float32, square, mean, eps, root, scale, to 16 bits, weight
FUSED = 4  # values that the kernel moves for each of a row: x and residual come, their sum and y go
# The same of the plain version, in 16 bits; a float32 counts twice. What has one value a row is left out.
PLAIN = {"add": 3, "to float32": 3, "square": 4, "mean": 2, "scale": 4, "to 16 bits": 3, "weight": 2}


def fused_bytes() -> int:
    """A bfloat16 batch of 8,192 rows of 4,096 values: bytes that the fused kernel reads and writes?"""
    return FUSED * ROWS * WIDTH * 2


def plain_over_fused() -> float:
    """How many times as many bytes does the plain version move?"""
    return sum(PLAIN.values()) / FUSED


def launches_saved() -> int:
    """A model of 30 layers with two norms a layer and one at the end, the first with nothing to add: launches saved a step?"""
    return _saved(30)


def _saved(layers: int) -> int:
    """The plain norm without an addition has one launch less."""
    norms = 2 * layers + 1
    return norms * (LAUNCHES - 1) - 1


def _copy_us(num_bytes: float) -> float:
    return num_bytes / (_report("kernels-h200")["copy_gb_per_s"] * 1e9) * 1e6


def fused_us() -> float:
    """Microseconds for `fused_bytes` at the rate of a copy."""
    return _copy_us(fused_bytes())


def plain_us() -> float:
    """The same for the plain version."""
    return _copy_us(fused_bytes() * plain_over_fused())


def ladder_layers() -> int:
    """Layers of the model that the ladder ran."""
    model = _report("ladder-h200")["model"].lower()
    return SHAPES[max((name for name in SHAPES if name in model), key=len)]["num_hidden_layers"]


def ladder_norms() -> int:
    """Norms in a step of that model."""
    return 2 * ladder_layers() + 1


def ladder_norm_launches() -> int:
    """_Launches that the plain norms are, of a step of that model."""
    return ladder_norms() * LAUNCHES - 1


def ladder_saved() -> int:
    """_Launches that the fused norm should save there."""
    return _saved(ladder_layers())


def ladder_saved_measured() -> float:
    """_Launches that it did save."""
    return _launches("triton-attention") - _launches("fused-norm")


def _launches(stage: str) -> float:
    found = next(each for each in _report("ladder-h200")["stages"] if each["name"] == stage)
    return next(each["launches_per_step"] for each in found["decode"] if each["batch"] == 64)


def _report(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
