"""The formulas of `minfer plan`: against the engine's own numbers, against each other, and in JavaScript."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from cli_runner import run
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from node_runner import node

import minfer.plan
from minfer import dummy
from minfer.errors import MinferError
from minfer.model_config import ModelConfig
from minfer.plan import formulas
from minfer.plan.cards import all_cards, find_card
from minfer.plan.formulas import Card, Shape
from minfer.plan.report import ITEMSIZE, shape_of
from minfer.testing.tiny import CONFIG, tiny_decoder

H200 = find_card("h200").card
shapes = st.builds(
    lambda kv, group, **sizes: Shape(num_heads=kv * group, num_kv_heads=kv, **sizes),
    kv=st.sampled_from([1, 2, 4, 8]), group=st.sampled_from([1, 2, 4, 8]), vocab_size=st.integers(100, 200_000),
    hidden_size=st.integers(8, 8192), intermediate_size=st.integers(8, 30_000), num_layers=st.integers(1, 80),
    head_dim=st.sampled_from([64, 80, 96, 128]), tied=st.booleans(),
)  # fmt: skip
cards = st.builds(Card, st.integers(8, 200), st.floats(1e11, 1e13), st.floats(1e13, 1e16))
lengths = st.integers(1, 100_000)


def divides(shape: Shape, tp: int) -> bool:
    return not shape.num_heads % tp and not (shape.num_kv_heads % tp and tp % shape.num_kv_heads)


def test_weights_are_those_of_a_decoder():
    """Of minfer's own decoder: every matrix is counted once, and nothing else but norms, biases and the embedding is there."""
    decoder = tiny_decoder()
    shape = Shape(**{name: getattr(CONFIG, name) for name in Shape._fields if name != "tied"}, tied=CONFIG.tie_word_embeddings)
    matrices = sum(parameter.numel() for parameter in decoder.parameters() if parameter.ndim == 2)
    assert formulas.weight_bytes(shape, 4) == 4 * matrices


@pytest.mark.parametrize("name", dummy.SHAPES)
def test_kv_bytes_are_the_engines_own(name):
    config = ModelConfig.load(Path(f"dummy:{name}"))
    for dtype, itemsize in ITEMSIZE.items():
        assert formulas.kv_bytes_per_token(shape_of(name), itemsize) == config.kv_bytes_per_token(getattr(torch, dtype))


def test_figures_that_were_worked_out_by_hand():
    """Llama-8B in bfloat16: 2 · 32 layers · 8 heads · 128 · 2 bytes; 15.0 GB that a step reads; 2 · 7.5e9 FLOPs a token."""
    llama = shape_of("llama-8b")
    assert formulas.kv_bytes_per_token(llama, 2) == 131_072
    assert formulas.decode_bytes(llama, 2, 0, 0) == pytest.approx(15.0e9, rel=0.005)
    assert formulas.decode_seconds(llama, H200, 2, 1, 1) == pytest.approx(15.0e9 / 4.8e12, rel=0.005)
    assert formulas.decode_flops(llama, 1, 0) == pytest.approx(15.0e9, rel=0.005)
    assert formulas.turning_batch(llama, H200, 2, 0) == pytest.approx(9.89e14 / 4.8e12, abs=1)
    assert formulas.turning_batch(llama, H200, 2, 32_768) is None
    assert formulas.prefill_flops(llama, 2) == 2 * 2 * formulas.layer_weights(llama) + 4 * 32 * 4096 * 3 + 2 * 128256 * 4096


@given(shapes, cards, st.integers(0, 20_000))
def test_the_turning_batch_is_where_it_turns(shape, card, context):
    """One below it a step is bound by memory, at it by compute."""
    batch = formulas.turning_batch(shape, card, 2, context)
    assume(batch is not None and batch < 10**9)

    def excess(count: int) -> float:
        read = formulas.decode_bytes(shape, 2, count, context) / card.bandwidth
        return formulas.decode_flops(shape, count, context) / card.flops / read - 1

    assert excess(batch) > -1e-9
    assert batch == 1 or excess(batch - 1) < 1e-9


@given(shapes, cards, st.integers(1, 5000), st.integers(1, 32), st.sampled_from([1, 2, 4]))
def test_what_fits_fits_and_one_more_does_not(shape, card, context, block_size, tp):
    assume(divides(shape, tp))
    count = formulas.num_sequences(shape, card, 2, context, block_size, 0.9, tp)
    blocks = -(-context // block_size)
    one = block_size * formulas.kv_bytes_per_token(shape, 2, tp)
    room = 0.9 * card.memory_gib * 2**30 - formulas.weight_bytes(shape, 2, tp)
    assert count == 0 or one * (count * blocks + 1) <= room * (1 + 1e-12)
    assert one * ((count + 1) * blocks + 1) > room * (1 - 1e-12)


@given(shapes, cards, lengths, st.integers(1, 512))
def test_more_cards_are_never_slower_and_longer_never_faster(shape, card, context, batch):
    assume(shape.num_heads % 2 == 0)
    alone = formulas.decode_seconds(shape, card, 2, batch, context)
    assert formulas.decode_seconds(shape, card, 2, batch, context, 2) <= alone
    assert alone <= formulas.decode_seconds(shape, card, 2, batch, context + 1)
    assert formulas.prefill_seconds(shape, card, 2, context) <= formulas.prefill_seconds(shape, card, 2, context + 1)


@pytest.mark.parametrize("tp", [0, 3, 64])
def test_heads_that_cannot_be_divided_are_refused(tp):
    with pytest.raises(MinferError, match=f"tp={tp} does not divide 32 query heads and 8"):
        formulas.kv_bytes_per_token(shape_of("llama-8b"), 2, tp)
    assert formulas.kv_heads_per_card(shape_of("llama-8b"), 16) == 1


JAVASCRIPT = """
import * as f from "PLACE";
import { readFileSync } from "fs";
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(([shape, card, context, batch, tp]) => [
  f.layerWeights(shape), f.headWeights(shape), f.weightBytes(shape, 2, tp), f.kvBytesPerToken(shape, 2, tp),
  f.numSequences(shape, card, 2, context, 16, 0.9, tp), f.prefillFlops(shape, context), f.decodeFlops(shape, batch, context),
  f.decodeBytes(shape, 2, batch, context, tp), f.decodeSeconds(shape, card, 2, batch, context, tp),
  f.prefillSeconds(shape, card, 2, context, tp), f.turningBatch(shape, card, 2, context, tp), f.attentionFlops(shape, context)])));
""".replace("PLACE", (Path(minfer.plan.__file__).parent / "formulas.mjs").as_uri())


@settings(max_examples=3)
@given(st.lists(st.tuples(shapes, cards, lengths, st.integers(1, 512), st.sampled_from([1, 2, 4])), min_size=40, max_size=40))
def test_javascript_agrees(drawn):
    """All formulas, by the same names, on the same numbers."""
    fits = [case for case in drawn if divides(case[0], case[4])]
    given_ = [[shape._asdict(), card._asdict(), *rest] for shape, card, *rest in fits]
    for (shape, card, context, batch, tp), got in zip(fits, node(JAVASCRIPT, given_), strict=True):
        wanted = [
            formulas.layer_weights(shape), formulas.head_weights(shape), formulas.weight_bytes(shape, 2, tp),
            formulas.kv_bytes_per_token(shape, 2, tp), formulas.num_sequences(shape, card, 2, context, 16, 0.9, tp),
            formulas.prefill_flops(shape, context), formulas.decode_flops(shape, batch, context),
            formulas.decode_bytes(shape, 2, batch, context, tp), formulas.decode_seconds(shape, card, 2, batch, context, tp),
            formulas.prefill_seconds(shape, card, 2, context, tp), formulas.turning_batch(shape, card, 2, context, tp),
            formulas.attention_flops(shape, context),
        ]  # fmt: skip
        assert got == [None if each is None else pytest.approx(each, rel=1e-12) for each in wanted]


def test_every_card_names_its_source_and_is_a_card():
    """Bandwidth and FLOPs of known generations: 50 to 1,000 FLOPs a byte, and an address of the maker."""
    for key, listed in all_cards().items():
        assert find_card(f"NV-{key}".removeprefix("NV-").upper()) == listed
        assert listed.source.split("/")[2].endswith("nvidia.com")
        assert 50 < listed.card.flops / listed.card.bandwidth < 1000
        assert 8 <= listed.card.memory_gib <= 300
    with pytest.raises(MinferError, match="no card is called 'h2000'; the table has b200, h200"):
        find_card("h2000")


def test_the_command():
    """As a table and as JSON; mistakes end with a reason."""
    table = run("plan", "llama-8b", "--gpu", "h100", "--context", 4096).stdout
    assert "131,072" in table
    assert "NVIDIA H100 SXM" in table
    facts = json.loads(run("plan", "qwen3-0.6b", "--json", "--tp", 2).stdout)
    assert facts["kv_bytes_per_token"] == 2 * 28 * 4 * 128 * 2
    assert facts["source"].startswith("https://")
    for wrong, message in ((["--tp", 3], "does not divide"), (["--gpu", "x"], "no card"), (["--dtype", "int3"], "not supported")):
        assert message in run("plan", "llama-8b", *wrong, code=1).stderr
    for name in ("context", "batch", "block-size"):
        assert "at least 1" in run("plan", "llama-8b", f"--{name}", 0, code=1).stderr
    assert "memory_share" in run("plan", "llama-8b", "--memory-share", 2, code=1).stderr
    assert "no model is called" in run("plan", "nonsense", code=1).stderr
