"""GGUF → a Hugging Face folder: the same model, the same tokens, and a clear error for everything else."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf_files import TOKENS, random_llama, write_gguf
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from minfer.errors import ModelError
from minfer.gguf import convert_gguf
from minfer.tokenizer import load_tokenizer

HEADS = st.sampled_from([(4, 2), (3, 1), (9, 3), (2, 2), (6, 2)])


@pytest.fixture(scope="module")
def good_bytes(tmp_path_factory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("good") / "model.gguf", random_llama()).read_bytes()


def convert(folder: Path, **fields) -> Path:
    """Convert a small random model with these key-value pairs changed."""
    convert_gguf(write_gguf(folder / "model.gguf", random_llama(), **fields), folder / "out")
    return folder / "out"


@given(
    heads=HEADS,
    head_dim=st.sampled_from([4, 8, 10]),
    tied=st.booleans(),
    layers=st.integers(1, 2),
    kind=st.sampled_from(["F32", "F16", "BF16", "Q8_0", "Q4_1"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=20)
def test_converted_model_is_the_same_model(tmp_path_factory, heads, head_dim, tied, layers, kind, seed):
    """Logits and every weight equal those of the transformers model that the file was written from: q and k are reordered back
    each by its own number of heads, embeddings are tied or not as before, quantised values survive exactly."""
    shape = {"hidden_size": 32 * heads[0], "head_dim": 32 if kind[0] == "Q" else head_dim, "num_hidden_layers": layers}
    model = random_llama(
        seed, num_attention_heads=heads[0], num_key_value_heads=heads[1], tie_word_embeddings=tied, rope_theta=1e5, **shape
    )
    folder = tmp_path_factory.mktemp("model")
    convert_gguf(write_gguf(folder / "model.gguf", model, kind), folder / "out")
    loaded = AutoModelForCausalLM.from_pretrained(folder / "out", dtype=torch.float32).eval()
    ids = torch.randint(0, len(TOKENS), (1, 12), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, model(ids).logits)
    state = loaded.state_dict()
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], weight) for name, weight in model.state_dict().items())


def test_config_holds_what_was_meant(tmp_path):
    """Numbers stored as float32 come back as they were written; ids of special tokens and the limits are kept."""
    config = json.loads((convert(tmp_path) / "config.json").read_text())
    meant = {"rms_norm_eps": 1e-5, "rope_theta": 10000.0, "head_dim": 8, "max_position_embeddings": 128}
    meant |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "vocab_size": len(TOKENS), "tie_word_embeddings": True}
    assert {key: config[key] for key in meant} == meant


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_dtype_is_that_of_the_file_written(tmp_path, dtype):
    """Weights are rounded once, from the exact values; config.json says which type they have."""
    model = random_llama(num_hidden_layers=1)
    convert_gguf(write_gguf(tmp_path / "model.gguf", model, "Q8_0"), tmp_path / "out", dtype)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert loaded.dtype == dtype
    assert torch.equal(loaded.model.layers[0].mlp.up_proj.weight, model.model.layers[0].mlp.up_proj.weight.to(dtype))


def test_end_of_turn_is_an_eos_too(tmp_path):
    """Llama 3 ends a text with one token and a turn with another; generation stops at both."""
    folder = convert(tmp_path, tokenizer__ggml__eot_token_id=2)
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == [1, 2]


def test_llama3_scaling_is_recognised(tmp_path):
    """Llama 3's rope_freqs become the rope_scaling that transformers turns into the same frequencies."""
    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling |= {"original_max_position_embeddings": 8192, "rope_theta": 5e5}
    shape = {"head_dim": 64, "hidden_size": 64, "max_position_embeddings": 131072}
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](LlamaConfig(rope_parameters=scaling, num_attention_heads=1, **shape), "cpu")
    divisors = 5e5 ** (-torch.arange(0, 64, 2) / 64) / scaled
    model = random_llama(rope_theta=5e5, **shape)
    convert_gguf(write_gguf(tmp_path / "a.gguf", model, extra={"rope_freqs.weight": divisors}), tmp_path / "out")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["rope_scaling"] | {"rope_theta": config["rope_theta"]} == scaling
    other = write_gguf(tmp_path / "b.gguf", model, extra={"rope_freqs.weight": 1.1 * divisors})
    with pytest.raises(ModelError, match="not Llama 3's"):
        convert_gguf(other, tmp_path / "other")


def test_linear_scaling_is_kept(tmp_path):
    folder = convert(tmp_path, llama__rope__scaling__type="linear", llama__rope__scaling__factor=4.0)
    assert json.loads((folder / "config.json").read_text())["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict:
    """A converted tokenizer for each way of splitting text."""
    splits = ("smollm", "gpt-2", "llama-bpe")
    return {split: load_tokenizer(convert(tmp_path_factory.mktemp(split), tokenizer__ggml__pre=split)) for split in splits}


@given(text=st.text(max_size=40), split=st.sampled_from(["smollm", "gpt-2", "llama-bpe"]))
@settings(max_examples=60)
def test_every_text_survives_the_tokenizer(tokenizers, text, split):
    """Any text, encoded and decoded, is itself: all bytes have tokens, nothing is cleaned up, no space is added."""
    tokenizer = tokenizers[split]
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


@pytest.mark.parametrize(("split", "pieces"), [("smollm", list("1234")), ("gpt-2", ["1234"]), ("llama-bpe", ["123", "4"])])
def test_digits_are_split_as_the_model_was_trained(tokenizers, split, pieces):
    """The merges would join all four digits; how far they may is the pre-tokenizer's business."""
    assert tokenizers[split].tokenize("1234") == pieces


def test_merges_are_applied_in_order(tokenizers):
    """The space joins the a before the n can."""
    assert tokenizers["smollm"].tokenize("the and") == ["the", "Ġa", "n", "d"]


def test_only_llama3_adds_a_bos(tokenizers, tmp_path):
    """Unless the file says otherwise."""
    assert {split: tokenizer("the").input_ids[0] == 0 for split, tokenizer in tokenizers.items()} == {
        "smollm": False,
        "gpt-2": False,
        "llama-bpe": True,
    }
    assert load_tokenizer(convert(tmp_path, tokenizer__ggml__add_bos_token=True))("the").input_ids[0] == 0


def test_special_tokens_are_single_and_skippable(tokenizers):
    """A control token is one id and is skipped on demand; a user-defined one is one id and text; padding of the vocabulary is
    no token at all."""
    tokenizer = tokenizers["smollm"]
    ids = tokenizer.encode("the<eos><plain>the<turn>")
    assert ids == [TOKENS.index(token) for token in ("the", "<eos>", "<plain>", "the", "<turn>")]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "the<plain>the"
    assert tokenizer.decode([len(TOKENS) - 1]) == ""
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == ("<bos>", "<eos>", "<eos>")


def test_chat_template_is_kept(tokenizers):
    messages = [{"role": "user", "content": "the"}]
    assert tokenizers["smollm"].apply_chat_template(messages, tokenize=False) == "the"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"general__architecture": "qwen2"}, "architecture 'qwen2'.*only 'llama'"),
        ({"llama__expert_count": 8}, "mixture of 8 experts.*dense models only"),
        ({"llama__rope__dimension_count": 4}, "rotates 4 of a head's 8"),
        ({"llama__rope__scaling__type": "yarn"}, "scales RoPE by 'yarn'.*none, linear and llama3"),
        ({"llama__block_count": None}, "has no llama.block_count"),
        ({"llama__block_count": 2}, "has 11 tensors, too few for 2 layers"),
        ({"llama__block_count": 2**31}, "has 11 tensors, too few for 2147483648 layers"),
        ({"llama__attention__head_count": 0}, "head_count is 0, but must be at least 1"),
        ({"llama__attention__head_count": [4]}, "head_count is of type list; minfer reads only int"),
        ({"llama__feed_forward_length": 65}, r"ffn_gate.weight is \[64, 32\].*ask for \[65, 32\]"),
        ({"drop": "blk.0.attn_q.weight"}, "lacks 1 tensors, such as blk.0.attn_q.weight"),
        ({"drop": "token_embd.weight"}, "no token_embd.weight"),
        ({"extra": {"blk.0.attn_q.bias": torch.zeros(4)}}, "has 1 tensors that a Llama model does not have.*attn_q.bias"),
        ({"tokenizer__ggml__model": "llama"}, "the kind 'llama'.*'gpt2'"),
        ({"tokenizer__ggml__pre": "qwen2"}, "the split 'qwen2'.*smollm, gpt-2, llama-bpe"),
        ({"tokenizer__ggml__tokens": [*TOKENS, "more"]}, "270 tokens, 269 kinds and 269 rows"),
        ({"tokenizer__ggml__merges": ["the zzz"]}, "broken vocabulary"),
        ({"tokenizer__ggml__eos_token_id": 999}, "eos token is 999, but it has only 269"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_not_supported_is_refused(tmp_path, fields, words):
    """Each error names what the file has and what minfer reads."""
    with pytest.raises(ModelError, match=words):
        convert(tmp_path, **fields)


def test_an_unreadable_quantisation_is_refused(tmp_path):
    """The error lists the types that can be read."""
    name = "blk.0.ffn_up.weight"
    extra = {"extra": {name: np.zeros((64, 40), dtype=np.uint8)}, "extra_type": gguf.GGMLQuantizationType.Q8_1}
    source = write_gguf(tmp_path / "model.gguf", random_llama(), drop=name, **extra)
    with pytest.raises(ModelError, match=r"ffn_up.weight is stored as Q8_1.*Q4_1.*Q8_0.*Q4_K"):
        convert_gguf(source, tmp_path / "out")


@given(data=st.data())
@settings(max_examples=60)
def test_a_truncated_file_is_refused(tmp_path_factory, good_bytes, data):
    """Wherever the file ends too early, in its header, its settings or its tensors, the error says so."""
    length = data.draw(st.one_of(st.integers(0, 64), st.integers(0, len(good_bytes) - 1)))
    path = tmp_path_factory.mktemp("cut") / "model.gguf"
    path.write_bytes(good_bytes[:length])
    with pytest.raises(ModelError, match=r"truncated or corrupt|not a GGUF file"):
        convert_gguf(path, path.parent / "out")


@given(where=st.integers(0, 8000), byte=st.integers(0, 255))
@settings(max_examples=60)
def test_a_corrupt_file_never_ends_in_another_error(tmp_path_factory, good_bytes, where, byte):
    """One wrong byte in the header or the settings: the file is refused by a ModelError, or still makes sense."""
    path = tmp_path_factory.mktemp("corrupt") / "model.gguf"
    path.write_bytes(good_bytes[:where] + bytes([byte]) + good_bytes[where + 1 :])
    with contextlib.suppress(ModelError):
        convert_gguf(path, path.parent / "out")
        Tokenizer.from_file(str(path.parent / "out" / "tokenizer.json"))


@pytest.mark.parametrize("more", range(4))
def test_a_false_length_of_a_list_does_not_hang(tmp_path, good_bytes, more):
    """The list of token types claims 2**56 entries, in files that end anywhere within an entry."""
    key = b"tokenizer.ggml.token_type"
    where = good_bytes.index(key) + len(key) + 4 + 4 + 7  # the type of the value, the type of its entries, the highest byte
    (tmp_path / "model.gguf").write_bytes(good_bytes[:where] + b"\x01" + good_bytes[where + 1 :] + bytes(more))
    with pytest.raises(ModelError, match="truncated or corrupt"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "out")


def test_a_missing_gguf_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r'pip install "minfer\[gguf\]"'):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "out")
