"""How much of a prompt a program of `triton_paged` works on at a time, by what the card has room for.

From: the card's shared memory, a head's bytes, the longest chunk. To: the launch of `triton_paged.prefill`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch


class Card(NamedTuple):
    """What a kernel must know of the device."""

    has_copy_engine: bool  # Hopper and later
    shared_memory: int  # bytes that a program may have


@functools.cache
def card(device: torch.device) -> Card:
    if device.type != "cuda":
        return Card(False, 1 << 16)  # Triton's interpreter
    properties = torch.cuda.get_device_properties(device)
    return Card(properties.major >= 9, properties.shared_memory_per_block_optin)


class Tiles(NamedTuple):
    """How a program works: queries it keeps, keys it takes at a time, warps, and how many tiles of keys are in flight."""

    queries: int
    keys: int
    warps: int
    stages: int


def tiles(max_query: int, row_bytes: int, shared_memory: int, tensor_cores: bool) -> Tiles:
    """The largest tiles that fit twice. row_bytes: of one head. The largest pay in long prompts only."""
    sizes = ((128, 128, 8), (64, 64, 4), (32, 32, 4))
    largest = 2 if not tensor_cores else 1 if max_query < 4096 else 0
    for queries, keys, warps in sizes[largest:]:
        stages = min(3, (shared_memory // row_bytes - queries) // (2 * keys))
        if stages > 1:
            return Tiles(queries, keys, warps, stages)
    return Tiles(32, 32, 4, 1)
