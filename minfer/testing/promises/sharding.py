"""What an executor on many devices promises of its `shard`: the ranks hold the model together, and together give its logits.

The ranks are threads here (`minfer/testing/ranks.py`). That processes agree as well, the whole engine shows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from transformers.utils import logging

from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.decoding import compute_logits, load
from minfer.testing.properties import Case, Differs, Place, Property, expect, expect_equal
from minfer.testing.ranks import Alone, logits_of_ranks
from minfer.testing.tiny import CONFIG

HEADS = [(2, 2), (4, 1), (1, 4), (2, 3), (3, 2), (1, 6), (3, 4), (4, 3), (6, 1)]  # K/V heads, query heads for each
KINDS = ["llama", "qwen2", "qwen3", "mistral"]
TOLERANCE = 1e-4  # of the largest logit


@st.composite
def cases(draw: st.DrawFn, place: Place) -> Case:
    """A model's shape, and a number of ranks that divides its query heads; K/V heads, MLP and vocabulary may not be divided."""
    kv_heads, group = draw(st.sampled_from(HEADS))
    return {
        "kv_heads": kv_heads,
        "group": group,
        "size": draw(st.sampled_from([size for size in (2, 3, 4, 6) if kv_heads * group % size == 0])),
        "head_dim": draw(st.sampled_from([4, 8])),
        "mlp": draw(st.sampled_from([16, 17, 5, 30])),
        "vocab": draw(st.sampled_from([50, 51, 320])),
    }


@st.composite
def models(draw: st.DrawFn, place: Place) -> Case:
    """With a family, biases, and a prompt."""
    drawn = {
        "kind": draw(st.sampled_from(KINDS)),
        "layers": draw(st.sampled_from([1, 2])),
        "tied": draw(st.booleans()),
        "biases": draw(st.booleans()),
        "prompt": draw(st.lists(st.integers(3, 49), min_size=1, max_size=7)),
        "seed": draw(st.integers(0, 9)),
    }
    return {**draw(cases(place)), **drawn}


def shards_of(part: Any, case: Case) -> list[Any]:
    """One a rank."""
    shape = {
        "num_heads": case["kv_heads"] * case["group"],
        "num_kv_heads": case["kv_heads"],
        "head_dim": case["head_dim"],
        "intermediate_size": case["mlp"],
        "vocab_size": case["vocab"],
    }
    config = replace(CONFIG, **shape)
    return [part.shard(config, rank, case["size"]) for rank in range(case["size"])]


def heads_of(case: Case, rank: int) -> list[int]:
    """The K/V head that each of the rank's query heads reads."""
    mine = case["kv_heads"] * case["group"] // case["size"]
    return [(rank * mine + at) // case["group"] for at in range(mine)]


def check_heads(part: Any, case: Case) -> None:
    """As the decoder reads them: its query heads in equal runs, a K/V head for each. The longest runs that all ranks can have."""
    ranks = range(case["size"])
    for rank, shard in enumerate(shards_of(part, case)):
        wanted, held = heads_of(case, rank), list(shard.kv_heads)
        who = f"rank {rank} of {case['size']}, whose query heads read the K/V heads {wanted},"
        expect(held and len(wanted) % len(held) == 0, f"{who} to hold K/V heads in a number that divides {len(wanted)}", held)
        run = len(wanted) // len(held)
        expect([head for head in held for _ in range(run)] == wanted, f"{who} to hold one for each equal run of them", held)
        longer = [n for n in range(run + 1, len(wanted) + 1) if len(wanted) % n == 0]
        for n in longer:
            runs = [heads_of(case, each)[at : at + n] for each in ranks for at in range(0, len(wanted), n)]
            cut = any(len(set(each)) > 1 for each in runs)
            expect(cut, f"{who} to share each among {n} of them, as every rank can", f"one for every {run}: {held}")


def positions(cut: Any) -> list[int]:
    return [at for start, stop in cut.ranges for at in range(start, stop)]


def expected_cuts(case: Case, held: list[int], rank: int) -> Iterator[tuple[str, int, int, list[int]]]:
    """(tensor, dimension, its whole length, the positions that are the rank's)."""
    D, size = case["head_dim"], case["size"]
    heads, kv = case["kv_heads"] * case["group"], case["kv_heads"]

    def rows(indices: list[int]) -> list[int]:
        return [index * D + at for index in indices for at in range(D)]

    q = rows(list(range(rank * heads // size, (rank + 1) * heads // size)))
    for name in ("q_proj.weight", "q_proj.bias"):
        yield f"self_attn.{name}", 0, heads * D, q
    for name in ("k_proj.weight", "k_proj.bias", "v_proj.weight", "v_proj.bias"):
        yield f"self_attn.{name}", 0, kv * D, rows(held)
    yield "self_attn.o_proj.weight", 1, heads * D, q
    share = -(-case["mlp"] // size)
    mlp = list(range(case["mlp"]))[rank * share : (rank + 1) * share]
    for name in ("gate_proj.weight", "up_proj.weight", "gate_proj.bias", "up_proj.bias"):
        yield f"mlp.{name}", 0, case["mlp"], mlp
    yield "mlp.down_proj.weight", 1, case["mlp"], mlp
    for name in ("self_attn.o_proj.bias", "mlp.down_proj.bias"):
        yield name, 0, CONFIG.hidden_size, list(range(CONFIG.hidden_size)) if rank == 0 else []


def check_cuts(part: Any, case: Case) -> None:
    """Rows of what makes heads and width, columns of what takes them in again; norms and embeddings whole."""
    for rank, shard in enumerate(shards_of(part, case)):
        for name, dim, length, wanted in expected_cuts(case, list(shard.kv_heads), rank):
            cut = shard.cut(f"model.layers.1.{name}")
            what = f"rank {rank} of {case['size']} to hold of {name}"
            expect(cut is not None, f"{what} a part", "all of it (None)")
            expect(cut.dim == dim, f"{what} {('rows', 'columns')[dim]} (dimension {dim})", f"dimension {cut.dim}")
            expect_equal(cut.length, length, f"the whole length of {name} in dimension {dim} to be")
            expect(positions(cut) == wanted, f"{what} {('rows', 'columns')[dim]} {short(wanted)}", short(positions(cut)))
        for name in ("model.embed_tokens.weight", "model.norm.weight", "model.layers.0.input_layernorm.weight"):
            cut = shard.cut(name)
            expect(cut is None, f"each rank to hold {name} whole (None)", cut)
        part_of_head = positions(shard.cut("lm_head.weight"))
        start, stop = shard.vocab
        expect(part_of_head == list(range(start, stop)), f"the rows {start} to {stop} of the head (`vocab`)", short(part_of_head))


def short(numbers: list[int]) -> str:
    return str(numbers) if len(numbers) < 13 else f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]} ({len(numbers)} of them)"


def check_sums(part: Any, case: Case) -> None:
    """Prompts in chunks and token by token, against the whole model."""
    biases = {"llama": {"attention_bias": case["biases"], "mlp_bias": case["biases"]}, "qwen3": {"attention_bias": case["biases"]}}
    config = {
        "num_attention_heads": case["kv_heads"] * case["group"],
        "num_key_value_heads": case["kv_heads"],
        "head_dim": case["head_dim"],
        "hidden_size": 24,
        "intermediate_size": case["mlp"],
        "vocab_size": case["vocab"],
        "num_hidden_layers": case["layers"],
        "tie_word_embeddings": case["tied"],
        **biases.get(case["kind"], {}),
    }
    logging.disable_progress_bar()
    prompts, chunks = [case["prompt"], case["prompt"][::-1]], [[2, 1, 3], [4]]
    with tempfile.TemporaryDirectory() as folder:
        path = make_checkpoint(Path(folder), case["kind"], case["seed"], **config)
        wanted = compute_logits(load(path), prompts, chunks)
        try:
            found = logits_of_ranks(part.shard, path, case["size"], prompts, chunks)
        except Alone as error:
            raise Differs("every rank to come to the same sums, in the same order", str(error)) from None
    for rank, logits in enumerate(found):
        for ours, theirs in zip(logits, wanted, strict=True):
            who = f"rank {rank} of {case['size']}"
            shape = list(theirs.shape)
            expect(ours.shape == theirs.shape, f"logits {shape} on {who}, without the vocabulary's padding", list(ours.shape))
            error = float((ours - theirs).abs().max() / theirs.abs().max())
            expect(error <= TOLERANCE, f"the whole model's logits on {who}", f"others, up to {error:.2g} of the largest one away")
    for logits in found[1:]:
        same = all(torch.equal(mine, first) for mine, first in zip(logits, found[0], strict=True))
        expect(same, "the same bits on every rank, since each samples for itself", "others than on rank 0")


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    heads = case["kv_heads"] * case["group"]
    varied = {
        "size": {size: {**case, "size": size} for size in (2, 3, 4, 6) if heads % size == 0},
        "mlp": {mlp: {**case, "mlp": mlp} for mlp in (5, 16, 17, 30)},
        "vocab": {vocab: {**case, "vocab": vocab} for vocab in (50, 51, 320)},
        "kind": {kind: {**case, "kind": kind} for kind in KINDS},
        "biases": {biases: {**case, "biases": biases} for biases in (False, True)},
    }
    return {name: cases for name, cases in varied.items() if name in case}


PROPERTIES = [
    Property(
        "heads",
        "A rank holds the K/V heads that its query heads read, one for each equal run of them, and no more than that takes.",
        cases,
        check_heads,
        60,
        vary,
    ),
    Property(
        "cuts",
        "Rows of what makes heads and width, columns of what takes them in again; a bias that is added before a sum, on one rank only.",
        cases,
        check_cuts,
        60,
        vary,
    ),
    Property("sums", "The ranks together give the whole model's logits, each of them the same.", models, check_sums, 20, vary),
]
