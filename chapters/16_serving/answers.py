"""The answers of chapter 16, computed. A function's docstring is its question."""

from __future__ import annotations

import json
from pathlib import Path

MEASURED = Path(__file__).with_name("measured.json")


def requests_inside() -> float:
    """40 requests a second come, and each is in the system for 1.5 s on average. How many are there on average?"""
    return 40 * 1.5


def most_requests_a_second() -> float:
    """4 ms a step, of 200 tokens each time; a request has 136 prompt tokens and 72 of output. Requests a second at most?"""
    computed = 136 + 72 - 1  # the last output token is sampled, and never computed
    return 1e3 / 4 * 200 / computed


def mean_request() -> float:
    """Nine of ten: 16 to 256 prompt tokens, 16 to 128 of output; one of ten: 1,000 to 4,000, and 200 to 400. Computed in the mean?"""
    short, long = (16 + 256) / 2 + (16 + 128) / 2 - 1, (1000 + 4000) / 2 + (200 + 400) / 2 - 1
    return 0.9 * short + 0.1 * long


def saturation() -> float:
    """A long step takes 0.02 ms a token. How many mean requests a second at most?"""
    return 1e3 / 0.02 / mean_request()


def inside() -> float:
    """60 requests a second come, and each is inside for half a second. How many are inside?"""
    return 60 * 0.5


def most_overtaking() -> float:
    """TOKENS_A_PLACE is 16, and no request has fewer than 2 tokens. 2,500 of prompt, 300 asked for: how many later ones go first?"""
    lead = 2500 + 300 - 2
    return (lead - 1) // 16  # by the last place at which the lead is more than the price


def _row(table: str, **wanted: object) -> dict:
    """A row of a measured table."""
    rows = json.loads(MEASURED.read_text(encoding="utf-8"))[table]["rows"]
    return next(row for row in rows if all(row[key] == value for key, value in wanted.items()))


def worst_wait_factor() -> float:
    """How many times as long is the longest wait for a first token without patience as with it?"""
    return (
        _row("policies", policy="shortest job, no patience")["max_s"] / _row("policies", policy="shortest job, with patience")["max_s"]
    )


def mean_wait_factor() -> float:
    """How many times as long is the mean time to first token by arrival as with shortest job first and patience?"""
    return (
        _row("policies", policy="first come, first served")["mean_ms"]
        / _row("policies", policy="shortest job, with patience")["mean_ms"]
    )


def knee_factor() -> float:
    """By how many times does the mean time to first token grow from 60 to 90 requests a second?"""
    return _row("rates", rate=90)["mean_ms"] / _row("rates", rate=60)["mean_ms"]


def knee_throughput_factor() -> float:
    """And the tokens a second?"""
    return _row("rates", rate=90)["tokens_per_s"] / _row("rates", rate=60)["tokens_per_s"]
