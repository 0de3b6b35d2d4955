"""The answers of chapter 11, computed. A function's docstring is its question."""

from __future__ import annotations

import json
from pathlib import Path

import minfer

QUERIES = KEYS = 64
PAD = 128  # rows to a multiple of which `copy` fills each sequence
KERNELS = Path(minfer.__file__).parents[1] / "benchmarks" / "results" / "kernels-h200.json"
HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128  # of the kernel benchmark


def _tiles(start: int, end: int) -> list[tuple[int, int]]:
    """(tiles without a mask, tiles with one) of each program of a chunk from `start` to `end` tokens of context."""
    found = []
    for oldest in range(start, end, QUERIES):
        last = min(oldest + QUERIES, end)
        whole = (oldest + 1) // KEYS
        found.append((whole, -(-last // KEYS) - whole))
    return found


def tiles_of_a_chunk() -> int:
    """A chunk brings a sequence from 768 to 1024 tokens. How many tiles of keys do the programs of one head read together?"""
    return sum(whole + masked for whole, masked in _tiles(768, 1024))


def tiles_of_the_first() -> int:
    """How many does the program of its first 64 queries read?"""
    return sum(_tiles(768, 1024)[0])


def masked_percent() -> float:
    """A prompt of 2,048 tokens is computed at once, in tiles of 64 by 64. What share of the tiles needs a mask, in percent?"""
    found = _tiles(0, 2048)
    return 100 * sum(masked for _, masked in found) / sum(whole + masked for whole, masked in found)


def padding_rows() -> int:
    """Three chunks with contexts of 100, 300 and 129 tokens share a launch. How many rows of keys hold no token?"""
    return sum(-(-context // PAD) * PAD - context for context in (100, 300, 129))


def gigaflops() -> float:
    """Causal attention of one prompt of 2,048 tokens, 32 heads of size 128: how many thousand million operations?"""
    return 4 * 2048 * 2048 / 2 * HEADS * HEAD_DIM / 1e9


def score_megabytes() -> float:
    """How many million bytes would its scores take as one matrix a head, in float32?"""
    return 4 * 2048 * 2048 * HEADS / 1e6


def copy_megabytes() -> float:
    """How many million bytes does copying its K and V move, read and written, 8 K/V heads in bfloat16?"""
    return 2 * 2 * 2048 * KV_HEADS * HEAD_DIM * 2 / 1e6


def copy_microseconds() -> float:
    """How long does that take at the rate at which the card copies?"""
    return copy_megabytes() * 1e6 / (json.loads(KERNELS.read_text(encoding="utf-8"))["copy_gb_per_s"] * 1e9) * 1e6


def bytes_floor_microseconds() -> float:
    """How long does it take at the same rate to read q, k and v once and write the result?"""
    values = 2048 * (2 * HEADS + 2 * KV_HEADS) * HEAD_DIM
    return values * 2 / (json.loads(KERNELS.read_text(encoding="utf-8"))["copy_gb_per_s"] * 1e9) * 1e6
