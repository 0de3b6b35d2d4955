"""Bytes and FLOPs of a decoder, and the least time that a card needs for them. Plain arithmetic; nothing here is measured.

From: `Shape`, `Card`. To: `report.py`. `formulas.mjs` has the same functions, by the same names, and a test that they agree.

A product of a matrix with one token is counted as one multiplication and one addition a weight: 2 FLOPs. Norms, RoPE, activations and
sampling are left out of the FLOPs: they are far below one in a hundred. With tensor parallelism (tp cards) each card has 1 / tp of the
matrices, and of the K/V heads as many as divide among them, at least one; the time of the all-reduces is not counted.
Sources: Kaplan et al., "Scaling Laws for Neural Language Models", 2020, for FLOPs a token; Williams et al., "Roofline", 2009, for the
least time: the larger of bytes / bandwidth and FLOPs / peak.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from minfer.errors import MinferError


class Shape(NamedTuple):
    """Of a model. Sizes are numbers of elements; the names are those of `ModelConfig`."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    tied: bool  # the embedding is the LM head too


class Card(NamedTuple):
    """Of a data sheet: memory in GiB (what NVIDIA's sheets call GB), bytes a second, dense 16-bit FLOPs a second."""

    memory_gib: float
    bandwidth: float
    flops: float


def layer_weights(shape: Shape) -> int:
    """Matrix weights of all layers: q, k, v, o, gate, up and down."""
    attention = shape.hidden_size * shape.head_dim * (2 * shape.num_heads + 2 * shape.num_kv_heads)
    return shape.num_layers * (attention + 3 * shape.hidden_size * shape.intermediate_size)


def head_weights(shape: Shape) -> int:
    """Weights of the LM head, which every sampled token is multiplied with."""
    return shape.vocab_size * shape.hidden_size


def weight_bytes(shape: Shape, itemsize: int, tp: int = 1) -> float:
    """Memory of the weights on each card; norms and biases, which are small, left out."""
    return itemsize * (layer_weights(shape) + head_weights(shape) * (1 if shape.tied else 2)) / tp


def kv_bytes_per_token(shape: Shape, itemsize: int, tp: int = 1) -> int:
    """K and V of one token in all layers, on each card."""
    return 2 * shape.num_layers * kv_heads_per_card(shape, tp) * shape.head_dim * itemsize


def kv_heads_per_card(shape: Shape, tp: int) -> int:
    """K/V heads of one card: a share of them, or one that several cards have copies of.

    Raises:
        MinferError: the heads cannot be divided among so many cards.
    """
    if tp < 1 or shape.num_heads % tp or (shape.num_kv_heads % tp and tp % shape.num_kv_heads):
        raise MinferError(
            f"tp={tp} does not divide {shape.num_heads} query heads and {shape.num_kv_heads} K/V heads evenly; take a number that does"
        )
    return max(shape.num_kv_heads // tp, 1)


def num_sequences(shape: Shape, card: Card, itemsize: int, context: int, block_size: int = 16, share: float = 0.9, tp: int = 1) -> int:
    """Sequences of `context` tokens whose K/V fit beside the weights, in whole blocks, in that share of the memory. 0: none does."""
    room = share * card.memory_gib * 2**30 - weight_bytes(shape, itemsize, tp)
    blocks = max(math.floor(room / (block_size * kv_bytes_per_token(shape, itemsize, tp))) - 1, 0)  # one block pads
    return blocks // math.ceil(context / block_size)


def attention_flops(shape: Shape, pairs: int) -> int:
    """Of so many pairs of a query and a key token, in all layers: a product each for the score and for the value."""
    return 4 * shape.num_layers * shape.num_heads * shape.head_dim * pairs


def prefill_flops(shape: Shape, tokens: int) -> int:
    """To compute a prompt from its beginning and sample the first token. A token sees itself and those before it."""
    pairs = tokens * (tokens + 1) // 2
    return 2 * layer_weights(shape) * tokens + attention_flops(shape, pairs) + 2 * head_weights(shape)


def decode_flops(shape: Shape, batch: int, context: int) -> int:
    """Of one step that computes one token each of `batch` sequences of `context` tokens."""
    return batch * (2 * (layer_weights(shape) + head_weights(shape)) + attention_flops(shape, context))


def decode_bytes(shape: Shape, itemsize: int, batch: int, context: int, tp: int = 1) -> float:
    """That one step reads on each card: every weight once, however many sequences, and each sequence's K/V."""
    weights = itemsize * (layer_weights(shape) + head_weights(shape)) / tp
    return weights + batch * context * kv_bytes_per_token(shape, itemsize, tp)


def decode_seconds(shape: Shape, card: Card, itemsize: int, batch: int, context: int, tp: int = 1) -> float:
    """The floor of a decode step."""
    memory = decode_bytes(shape, itemsize, batch, context, tp) / card.bandwidth
    return max(memory, decode_flops(shape, batch, context) / tp / card.flops)


def prefill_seconds(shape: Shape, card: Card, itemsize: int, tokens: int, tp: int = 1) -> float:
    """The floor of a prompt alone: its FLOPs, or the reading of the weights for a short one."""
    weights = itemsize * (layer_weights(shape) + head_weights(shape)) / tp
    return max(weights / card.bandwidth, prefill_flops(shape, tokens) / tp / card.flops)


def turning_batch(shape: Shape, card: Card, itemsize: int, context: int, tp: int = 1) -> int | None:
    """The smallest batch whose decode step takes longer to compute than to read; None where no batch does.

    Weights are read once for all sequences, so their cost a sequence falls with the batch. K/V are read for each, so with a long
    context a decode step stays bound by memory, however large the batch.
    """
    compute = decode_flops(shape, 1, context) / tp / card.flops  # of one more sequence
    read = context * kv_bytes_per_token(shape, itemsize, tp) / card.bandwidth
    if compute <= read:
        return None
    return max(math.ceil(decode_bytes(shape, itemsize, 0, 0, tp) / card.bandwidth / (compute - read)), 1)
