"""The plan of one model on one card, as `minfer plan` shows it: each figure with how it is got.

From: `formulas.py`. To: the command line, as a table or as JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from minfer import dummy
from minfer.errors import MinferError
from minfer.hub import find_model
from minfer.model_config import ModelConfig
from minfer.plan import formulas
from minfer.plan.cards import Listed
from minfer.plan.formulas import Shape

ITEMSIZE = {"float32": 4, "float16": 2, "bfloat16": 2}


class Figure(NamedTuple):
    """One line of a plan: a number with its unit. None: there is none."""

    key: str
    what: str
    value: float | None
    unit: str


def shape_of(model: str, revision: str | None = None) -> Shape:
    """Of a shape's name (llama-8b), a folder, or any other name that LLM takes.

    Raises:
        ModelError: there is no such model.
    """
    is_shape = model in dummy.SHAPES and not Path(model).is_dir()
    config = ModelConfig.load(Path(f"{dummy.PREFIX}{model}") if is_shape else find_model(model, revision))
    sizes = {name: getattr(config, name) for name in Shape._fields if name != "tied"}
    return Shape(**sizes, tied=config.tie_word_embeddings)


def figures(
    shape: Shape, listed: Listed, *, dtype: str, context: int, batch: int, block_size: int, share: float, tp: int
) -> list[Figure]:
    """All of a plan's figures, per card where it is several.

    Raises:
        MinferError: a number that cannot be: an unknown dtype, a context below 1, cards that the heads cannot be divided among.
    """
    if dtype not in ITEMSIZE:
        raise MinferError(f"dtype={dtype!r} is not supported; use {', '.join(ITEMSIZE)}")
    for name, value in (("context", context), ("batch", batch), ("block_size", block_size)):
        if value < 1:
            raise MinferError(f"{name}={value} must be at least 1")
    if not 0 < share <= 1:
        raise MinferError(f"memory_share={share} must be above 0 and at most 1: it is a share of the card's memory")
    size, card = ITEMSIZE[dtype], listed.card

    def step(sequences: int) -> float:
        return formulas.decode_seconds(shape, card, size, sequences, context, tp)

    turn = [formulas.turning_batch(shape, card, size, length, tp) for length in (1, context)]
    return [
        Figure("weights_gib", "weights", formulas.weight_bytes(shape, size, tp) / 2**30, "GiB"),
        Figure("kv_bytes_per_token", "K/V of a token", formulas.kv_bytes_per_token(shape, size, tp), "bytes"),
        Figure(
            "num_sequences",
            f"sequences of {context} tokens that fit into {share:.0%} of the memory",
            formulas.num_sequences(shape, card, size, context, block_size, share, tp),
            "",
        ),
        Figure("decode_ms_1", f"decode step of 1 at context {context}", 1e3 * step(1), "ms at least"),
        Figure("decode_ms", f"decode step of {batch}", 1e3 * step(batch), "ms at least"),
        Figure("decode_tok_s", f"tokens a second of {batch}", batch / step(batch), "at most"),
        Figure("prefill_tflop", f"prefill of {context} tokens", formulas.prefill_flops(shape, context) / 1e12, "TFLOP"),
        Figure("prefill_ms", "the same", 1e3 * formulas.prefill_seconds(shape, card, size, context, tp), "ms at least"),
        Figure("turning_batch_short", "batch from which decodes are bound by compute, at context 1", turn[0], ""),
        Figure("turning_batch", f"the same at context {context}", turn[1], ""),
    ]
