"""The answers of chapter 1, computed. A function's docstring is its question."""

from __future__ import annotations

import json
import math
from pathlib import Path

from minfer.dummy import SHAPES

SHAPE = SHAPES["smollm2-135m"]
PROMPTS = [117, 10, 96, 67]


def parameters() -> int:
    """How many numbers are the weights of SmolLM2-135M? The embedding serves as the last projection as well."""
    hidden, mlp, head = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["head_dim"]
    query, both = SHAPE["num_attention_heads"] * head, 2 * SHAPE["num_key_value_heads"] * head
    layer = hidden * (query + both) + query * hidden + 3 * hidden * mlp + 2 * hidden
    return SHAPE["num_hidden_layers"] * layer + SHAPE["vocab_size"] * hidden + hidden


def weight_bytes() -> int:
    """How many bytes of weights does one decode step of SmolLM2-135M read, in float32?"""
    return 4 * parameters()


def weight_megabytes() -> float:
    """The same in millions of bytes."""
    return weight_bytes() / 1e6


def token_gigaflops() -> float:
    """How many floating-point operations does one token take? Two for each weight of a product, in thousand millions."""
    return 2 * parameters() / 1e9


def logits_kilobytes() -> float:
    """How many thousand bytes are one row of logits, in float32?"""
    return 4 * SHAPE["vocab_size"] / 1e3


def padding_percent() -> float:
    """Four prompts of 117, 10, 96 and 67 tokens are padded on the left to one length. What share of the places is padding?"""
    places = len(PROMPTS) * max(PROMPTS)
    return 100 * (places - sum(PROMPTS)) / places


def cold_probability() -> float:
    """Two tokens have the logits 2 and 0. At temperature 0.5, how likely is the first?"""
    return 1 / (1 + math.exp((0 - 2) / 0.5))


def floor_share() -> float:
    """What share of a measured decode step is the time that reading the weights takes, in percent?"""
    measured = json.loads(Path(__file__).with_name("measured.json").read_text())
    return 100 * measured["floor_ms"] / measured["decode"][0]["ms"]
