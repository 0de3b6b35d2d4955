"""The answers of chapter 12, computed. A function's docstring is its question."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from minfer.inputs.message import TOKEN, StepMessage

BLOCK_SIZE, COLUMNS = 16, 256
MEASURED = Path(__file__).with_name("measured.json")


def message_bytes() -> int:
    """max_num_seqs = 64. A decode step of 64 rows is sent. How many bytes is the message?"""
    message = StepMessage(num_rows=64, num_tokens=64, nowhere=0, device=torch.device("cpu"))
    return message.spans["tokens"][0] + 64 * TOKEN.itemsize


def place() -> int:
    """Blocks of 16 tokens, 256 columns: at which place in the flattened tables is the block of row 3, position 100?"""
    return 3 * COLUMNS + 100 // BLOCK_SIZE


def new_blocks() -> float:
    """64 sequences decode, with blocks of 16 tokens. How many of them need a new block in a step, on average?"""
    return 64 / BLOCK_SIZE


def table_bytes() -> int:
    """How many bytes are the block tables of 64 rows with 256 columns of 4 bytes?"""
    return 64 * COLUMNS * 4


def _of_rows(rows: int) -> dict:
    """What was measured with so many rows."""
    return next(each for each in json.loads(MEASURED.read_text(encoding="utf-8"))["results"] if each["rows"] == rows)


def host_speedup() -> float:
    """256 rows: how many times as long do host inputs take to build and send as resident ones?"""
    measured = _of_rows(256)
    return measured["host"]["build_and_send_us"] / measured["resident"]["build_and_send_us"]


def fewer_bytes() -> float:
    """64 rows: how many times as many bytes do host inputs send?"""
    measured = _of_rows(64)
    return measured["host"]["bytes"] / measured["resident"]["bytes"]
