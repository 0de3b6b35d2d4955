"""Loading: fused from one file or many, every tensor accounted for, and a clear error for whatever is wrong with the files."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from minfer.errors import ModelError
from minfer.model_config import ModelConfig
from minfer.testing.checkpoints import KINDS, make_checkpoint
from minfer.testing.decoding import TORCH_FUNCTIONS, compute_logits, load
from minfer.weights import checkpoint_files, destinations, load_decoder

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PROMPT = [5, 3, 8, 1, 9, 2, 7]
BIASES = {"llama": {"attention_bias": True, "mlp_bias": True}, "qwen3": {"attention_bias": True}}


def edit(path: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """Rewrite the single file with its tensors changed."""
    tensors = load_file(path / SINGLE)
    change(tensors)
    save_file(tensors, path / SINGLE, metadata={"format": "pt"})
    return path


def logits(path: Path) -> torch.Tensor:
    return compute_logits(load(path), [PROMPT], [[9]])[0]


@torch.inference_mode()
def their_logits(path: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32)
    return model(torch.tensor([PROMPT]), use_cache=False).logits[0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_tensor_arrives_where_it_belongs(kind, tmp_path):
    """Read back through the same places, the parameters are the checkpoint's tensors, bit by bit; nothing is left as it was."""
    path = make_checkpoint(tmp_path, kind, tie_word_embeddings=False, **BIASES.get(kind, {}))
    decoder = load(path)
    places, saved = destinations(decoder), load_file(path / SINGLE)
    assert places.keys() == saved.keys()
    assert sum(place.numel() for place in places.values()) == sum(p.numel() for p in decoder.parameters())
    for name, tensor in saved.items():
        assert torch.equal(places[name], tensor), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_are_converted_while_loading(dtype, tmp_path):
    """Whatever the file holds, the decoder has the dtype asked for."""
    path = edit(make_checkpoint(tmp_path), lambda t: t.update({name: x.bfloat16() for name, x in t.items()}))
    decoder = load(path, dtype=dtype)
    assert {p.dtype for p in decoder.parameters()} == {dtype}
    name = "model.layers.1.mlp.up_proj.weight"
    assert torch.equal(destinations(decoder)[name], load_file(path / SINGLE)[name].to(dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_shards_equal_one_file(kind, tmp_path):
    """The parts of one fused parameter may lie in different shards."""
    one = make_checkpoint(tmp_path / "one", kind)
    many = make_checkpoint(tmp_path / "many", kind, max_shard_size="4KB")
    assert len(checkpoint_files(many)) > 5
    assert torch.equal(logits(one), logits(many))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("head", ["absent", "present"])
def test_tied_or_not_with_a_head_or_without(tied, head, tmp_path, caplog):
    """Tied: the embeddings, also where the file repeats them as lm_head. Untied: the file's head, and an error without one."""
    path = make_checkpoint(tmp_path, tie_word_embeddings=tied)
    if head == "present" and tied:
        edit(path, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    if head == "absent" and not tied:
        edit(path, lambda t: t.pop("lm_head.weight"))
        with pytest.raises(ModelError, match=r"lacks .*lm_head\.weight"):
            load(path)
        return
    torch.testing.assert_close(logits(path), their_logits(path), rtol=0, atol=1e-4)
    assert not caplog.records


def test_a_head_that_contradicts_config_is_reported(tmp_path, caplog):
    """Tied by config.json, yet another lm_head in the file: the embeddings are used, and the log says so."""
    path = make_checkpoint(tmp_path, tie_word_embeddings=True)
    expected = logits(path)
    edit(path, lambda t: t.update({"lm_head.weight": torch.ones_like(t["model.embed_tokens.weight"])}))
    with caplog.at_level(logging.WARNING, "minfer"):
        assert torch.equal(logits(path), expected)
    assert "lm_head.weight" in caplog.text


def test_rotary_frequencies_in_old_files_are_ignored(tmp_path):
    """Old checkpoints carry a buffer that follows from config.json."""
    path = make_checkpoint(tmp_path)
    expected = logits(path)
    edit(path, lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}))
    assert torch.equal(logits(path), expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.update({"foo.weight": torch.ones(3)}), ["no place", "foo.weight"]),
        (lambda t: t.update({"model.layers.0.self_attn.q_proj.bias": torch.ones(48)}), ["q_proj.bias", "no place"]),
        (lambda t: t.update({"model.layers.2.input_layernorm.weight": torch.ones(48)}), ["layers.2", "no place"]),
        (lambda t: t.pop("model.layers.1.self_attn.v_proj.weight"), ["lacks", "layers.1.self_attn.v_proj.weight"]),
        (lambda t: [t.pop(name) for name in list(t)[:20]], ["lacks", "and 12 more"]),
        (
            lambda t: t.update({"model.layers.0.self_attn.k_proj.weight": torch.ones(8, 48)}),
            ["k_proj.weight", "[8, 48]", "[16, 48]"],
        ),
        (
            lambda t: t.update({"model.layers.0.mlp.up_proj.weight": torch.ones(96, 48, dtype=torch.int8)}),
            ["up_proj.weight", "int8", "quantised"],
        ),
    ],
    ids=["extra", "bias without place", "extra layer", "missing", "many missing", "shape", "quantised"],
)
def test_tensors_that_do_not_fit_are_named(change, words, tmp_path):
    """A leftover, missing, misshapen or quantised tensor would give wrong text: it is an error."""
    path = edit(make_checkpoint(tmp_path), change)
    with pytest.raises(ModelError) as error:
        load(path)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_a_forgotten_bias_is_an_error(kind, tmp_path):
    """A checkpoint without the biases that config.json or the architecture promises is refused, not run without them."""
    path = make_checkpoint(tmp_path, kind, **BIASES.get(kind, {}))
    edit(path, lambda t: t.pop("model.layers.0.self_attn.k_proj.bias"))
    with pytest.raises(ModelError, match=r"layers\.0\.self_attn\.k_proj\.bias"):
        load(path)


@pytest.mark.parametrize("keep", [0.0, 0.02, 0.5, 0.999])
@pytest.mark.parametrize("max_shard_size", ["1GB", "20KB"])
def test_a_file_cut_short_is_named(keep, max_shard_size, tmp_path):
    """A download that stopped anywhere, in the header or in the data: the error gives the file and what to do."""
    path = make_checkpoint(tmp_path, max_shard_size=max_shard_size)
    victim = checkpoint_files(path)[-1]
    content = victim.read_bytes()
    victim.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ModelError, match="download") as error:
        load(path)
    assert str(victim) in str(error.value)


def test_a_missing_shard_is_named(tmp_path):
    """The index lists it, the folder lacks it."""
    path = make_checkpoint(tmp_path, max_shard_size="20KB")
    victim = checkpoint_files(path)[1]
    victim.unlink()
    with pytest.raises(ModelError, match="is missing") as error:
        load(path)
    assert str(victim) in str(error.value)


@pytest.mark.parametrize("content", ["", '{"weight_map": {"a": "b', "{}", "[]", '{"weight_map": 3}'])
def test_a_broken_index_is_named(content, tmp_path):
    """An index that is no JSON or has no map of weights."""
    path = make_checkpoint(tmp_path, max_shard_size="20KB")
    (path / INDEX).write_text(content)
    with pytest.raises(ModelError, match=r"index\.json cannot be read"):
        load(path)


def test_a_tensor_in_two_shards_is_refused(tmp_path):
    """Which of the two would be right is unknown."""
    path = make_checkpoint(tmp_path, max_shard_size="20KB")
    first, second = checkpoint_files(path)[:2]
    name, tensor = next(iter(load_file(first).items()))
    save_file({**load_file(second), name: tensor}, second)
    with pytest.raises(ModelError, match=name.replace(".", r"\.")):
        load(path)


def test_only_safetensors_are_read(tmp_path):
    """A folder with pickled weights only, and a folder with none, each get their own error."""
    path = make_checkpoint(tmp_path)
    (path / SINGLE).unlink()
    with pytest.raises(ModelError, match="has no weights"):
        load(path)
    (path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelError, match=r"only as pytorch_model\.bin.*safetensors"):
        load(path)


def test_config_of_another_model_is_refused(tmp_path):
    """The shapes are checked against config.json before anything runs."""
    small = make_checkpoint(tmp_path / "small", hidden_size=48)
    large = make_checkpoint(tmp_path / "large", hidden_size=96)
    shutil.copy(large / "config.json", small / "config.json")
    with pytest.raises(ModelError, match="has shape"):
        load_decoder(small, ModelConfig.load(small), TORCH_FUNCTIONS, torch.float32, "cpu", 64)


@pytest.mark.parametrize("size", ["vocab_size", "intermediate_size", "head_dim"])
def test_a_model_larger_than_the_memory_is_refused(tmp_path, size):
    """The message says for what memory is lacking and what to do."""
    path = make_checkpoint(tmp_path)
    config = replace(ModelConfig.load(path), **{size: 10**14})
    with pytest.raises(ModelError, match=r"too little memory on cpu for the weights of .*tensor_parallel_size"):
        load_decoder(path, config, TORCH_FUNCTIONS, torch.float32, "cpu", 64)


def test_the_same_arguments_make_the_same_checkpoint(tmp_path):
    """Tiny checkpoints are deterministic, and the seed matters; nobody else's random numbers are used up."""
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    paths = [make_checkpoint(tmp_path / str(i), seed=seed) for i, seed in enumerate((0, 0, 1))]
    assert torch.equal(torch.random.get_rng_state(), before)
    a, b, c = (load_file(path / SINGLE) for path in paths)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(a["lm_head.weight"], c["lm_head.weight"])
    assert json.loads((paths[0] / "config.json").read_text())["vocab_size"] == 320
