"""The answers of chapter 2, computed. A function's docstring is its question."""

from __future__ import annotations

from pathlib import Path

import torch

from minfer.model_config import ModelConfig

MODEL = ModelConfig.load(Path("dummy:smollm2-135m"))
MAX_LEN, SEQUENCES = 512, 4  # of the ladder on a CPU
MIB = 2**20


def kv_bytes_per_token() -> int:
    """How many bytes of K and V does one token of SmolLM2-135M take in the cache, all layers together, in float32?"""
    return MODEL.kv_bytes_per_token(torch.float32)


def slot_of_position_100() -> int:
    """A cache has blocks of 512 tokens. In which slot is position 100 of the sequence whose only block is number 3?"""
    return 3 * 512 + 100


def weight_bytes() -> int:
    """How many bytes are the weights of SmolLM2-135M in float32?"""
    hidden, heads = MODEL.hidden_size, MODEL.num_heads + 2 * MODEL.num_kv_heads
    layer = hidden * heads * MODEL.head_dim + MODEL.num_heads * MODEL.head_dim * hidden
    layer += 3 * hidden * MODEL.intermediate_size + 2 * hidden
    return 4 * (MODEL.num_layers * layer + MODEL.vocab_size * hidden + hidden)


def even_context() -> float:
    """At which context does one decode step of a single sequence read as many bytes of K and V as of weights?"""
    return weight_bytes() / kv_bytes_per_token()


def kv_share_percent() -> float:
    """With a context of 512 tokens, how many bytes of K and V does a decode step read for each 100 bytes of weights?"""
    return 100 * 512 * kv_bytes_per_token() / weight_bytes()


def reserved_mib() -> float:
    """Four sequences reserve 512 tokens each. How many MiB of K and V is that, in float32?"""
    return SEQUENCES * MAX_LEN * kv_bytes_per_token() / MIB


def group_size() -> float:
    """How many query heads share a K/V head in SmolLM2-135M?"""
    return MODEL.num_heads / MODEL.num_kv_heads
