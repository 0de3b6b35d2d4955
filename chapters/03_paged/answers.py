"""The answers of chapter 3, computed. A function's docstring is its question."""

from __future__ import annotations

from pathlib import Path

import torch

from minfer.model_config import ModelConfig

MODEL = ModelConfig.load(Path("dummy:smollm2-135m"))
PAGE, MAX_LEN, POOL = 16, 512, 1024
MEAN = 80  # tokens of a sequence while it runs, on the ladder's workload
MIB = 2**20


def _blocks_for(tokens: int) -> int:
    """So many blocks hold that many tokens."""
    return -(-tokens // PAGE)


def empty_places() -> int:
    """How many places of its blocks of 16 does a sequence of 100 tokens leave empty?"""
    return _blocks_for(100) * PAGE - 100


def block_bytes() -> int:
    """A block of 16 tokens of SmolLM2-135M in float32, all layers, K and V: how many bytes?"""
    return PAGE * MODEL.kv_bytes_per_token(torch.float32)


def shared_blocks() -> int:
    """Four completions share a prompt of 40 tokens, and each writes 10 of its own: how many blocks of 16 do they hold together?

    The two blocks that the prompt fills are shared. The third has 8 prompt tokens; each completion writes behind them, so each has a
    copy, and needs one block more for its last 2 tokens.
    """
    full = 40 // PAGE
    return full + 4 * (_blocks_for(50) - full)


def unshared_blocks() -> int:
    """The same without sharing."""
    return 4 * _blocks_for(50)


def mean_empty() -> float:
    """How many places of its last block does a sequence leave empty, if all lengths are equally frequent?"""
    return sum(-length % PAGE for length in range(PAGE)) / PAGE


def predicted_waste_percent() -> float:
    """A sequence of 80 tokens on average leaves that many places empty: what share of those that it holds, in percent?"""
    return 100 * mean_empty() / (MEAN + mean_empty())


def reserved_waste_percent() -> float:
    """A sequence of 80 tokens on average holds 512 places: what share of them is empty, in percent?"""
    return 100 * (1 - MEAN / MAX_LEN)


def pool_mib() -> float:
    """A pool of 1,024 tokens, in MiB of K and V."""
    return POOL * MODEL.kv_bytes_per_token(torch.float32) / MIB


def sequences_reserved() -> int:
    """How many sequences does a pool of 1,024 tokens hold if each reserves 512?"""
    return POOL // MAX_LEN


def sequences_paged() -> int:
    """How many sequences of 80 tokens does it hold in blocks of 16?"""
    return POOL // PAGE // _blocks_for(MEAN)
