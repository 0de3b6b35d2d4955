"""The answers of chapter 13, computed. A function's docstring is its question."""

from __future__ import annotations

import json
from pathlib import Path

DEVICE_MS, HOST_MS = 5.0, 3.0
MEASURED = Path(__file__).with_name("measured.json")


def plain_ms() -> float:
    """The device needs 5 ms for a step, the host 3 ms. How many ms does a step take in the plain loop?"""
    return DEVICE_MS + HOST_MS


def overlapped_ms() -> float:
    """The same step in the overlapped loop?"""
    return max(DEVICE_MS, HOST_MS)


def wasted_percent() -> float:
    """64 sequences that end with an EOS after 128 output tokens: what share of all decode rows is computed for nothing, in percent?"""
    rows = 64 * 127  # the first output token comes from the prompt's own step
    wasted = 64  # one row each, in the step that was launched before the EOS was known
    return 100 * wasted / (rows + wasted)


def _at(device_ms: float) -> dict:
    """What was measured around a device that needs so many milliseconds."""
    return next(each for each in json.loads(MEASURED.read_text(encoding="utf-8"))["steps"] if each["device_ms"] == device_ms)


def measured_speedup() -> float:
    """How many times as long does a step of the plain loop take, around a device of one millisecond?"""
    return _at(1.0)["plain"] / _at(1.0)["overlapped"]


def measured_hidden_percent() -> float:
    """Around a device of two milliseconds, what share of what the plain loop adds to it does the overlapped loop hide, in percent?"""
    step = _at(2.0)
    return 100 * (step["plain"] - step["overlapped"]) / (step["plain"] - 2.0)
