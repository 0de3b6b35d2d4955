"""minfer: an LLM inference engine to learn from, and good enough to use.

A stage is the previous stage with exactly one part swapped; `minfer.stages` is the ladder, `minfer.parts` says what a part is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minfer.llm import LLM
    from minfer.params import SamplingParams
    from minfer.stages import STAGES

__version__ = "0.1.0"
__all__ = ["LLM", "STAGES", "SamplingParams"]

_HOMES = {"LLM": "minfer.llm", "SamplingParams": "minfer.params", "STAGES": "minfer.stages"}


def __getattr__(name: str):
    """Imported on first use, so that `minfer --help` need not wait for PyTorch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'minfer' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_HOMES[name]), name)
