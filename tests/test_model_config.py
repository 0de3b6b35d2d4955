"""ModelConfig: what is read from config.json and generation_config.json, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from minfer.errors import ModelError
from minfer.model_config import FAMILIES, ModelConfig

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 320,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
}


def load(folder: Path, generation: dict | None = None, **changes) -> ModelConfig:
    """The config of LLAMA with changes; a value of ... takes the key away."""
    content = {key: value for key, value in {**LLAMA, **changes}.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(content))
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    return ModelConfig.load(folder)


def named(name: str) -> dict:
    return {"architectures": [name], "model_type": FAMILIES[name].model_type}


def test_sizes(tmp_path):
    """Sizes come from the file; the head size from hidden_size where the file gives none."""
    config = load(tmp_path, tie_word_embeddings=True, torch_dtype="bfloat16")
    assert (config.hidden_size, config.intermediate_size, config.vocab_size, config.num_layers) == (48, 96, 320, 3)
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (6, 2, 8)
    assert (config.rms_norm_eps, config.tie_word_embeddings, config.dtype) == (1e-5, True, "bfloat16")
    assert config.kv_bytes_per_token(torch.float32) == 2 * 3 * 2 * 8 * 4
    assert config.kv_bytes_per_token(torch.bfloat16) == 2 * 3 * 2 * 8 * 2
    assert load(tmp_path, head_dim=96).head_dim == 96
    assert load(tmp_path, num_key_value_heads=...).num_kv_heads == 6
    assert load(tmp_path, **named("Qwen3ForCausalLM")).head_dim == 128  # transformers' default for this one


@pytest.mark.parametrize(
    ("config_eos", "generation", "eos"),
    [
        (2, None, (2,)),
        (2, {}, (2,)),
        (2, {"eos_token_id": [7, 2, 9]}, (2, 7, 9)),
        ([5, 6], {"eos_token_id": 6}, (5, 6)),
        (None, {"eos_token_id": 4}, (4,)),
        (..., None, ()),
        (0, None, (0,)),
    ],
)
def test_eos_is_the_union_of_both_files(tmp_path, config_eos, generation, eos):
    """One id, a list or none, in either file or both; id 0 counts."""
    assert load(tmp_path, generation, eos_token_id=config_eos).eos_ids == eos


def test_other_special_ids(tmp_path):
    """bos and pad come from config.json, else from generation_config.json."""
    config = load(tmp_path, {"bos_token_id": 8, "pad_token_id": 3}, bos_token_id=0)
    assert (config.bos_id, config.pad_id) == (0, 3)


@pytest.mark.parametrize(
    ("name", "qkv", "o", "mlp", "norm"),
    [
        ("LlamaForCausalLM", True, True, True, False),
        ("MistralForCausalLM", False, False, False, False),
        ("Qwen2ForCausalLM", True, False, False, False),
        ("Qwen3ForCausalLM", True, True, False, True),
    ],
)
def test_biases_of_each_family(tmp_path, name, qkv, o, mlp, norm):
    """Which biases exist is partly the file's choice, partly the architecture's, as in transformers."""
    config = load(tmp_path, **named(name), attention_bias=True, mlp_bias=True)
    assert (config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm) == (qkv, o, mlp, norm)
    bare = load(tmp_path, **named(name))
    assert (bare.qkv_bias, bare.o_bias, bare.mlp_bias) == (name == "Qwen2ForCausalLM", False, False)


@pytest.mark.parametrize(
    ("name", "settings", "windows"),
    [
        ("LlamaForCausalLM", {"sliding_window": 8}, (None, None, None)),
        ("MistralForCausalLM", {"sliding_window": 8}, (8, 8, 8)),
        ("MistralForCausalLM", {"sliding_window": None}, (None, None, None)),
        ("MistralForCausalLM", {}, (4096, 4096, 4096)),
        ("Qwen2ForCausalLM", {"sliding_window": 8, "max_window_layers": 0}, (None, None, None)),
        ("Qwen2ForCausalLM", {"sliding_window": 8, "max_window_layers": 1, "use_sliding_window": True}, (None, 8, 8)),
        ("Qwen3ForCausalLM", {"sliding_window": 8, "use_sliding_window": True}, (None, None, None)),  # from layer 28 on
        (
            "Qwen3ForCausalLM",
            {
                "sliding_window": 8,
                "use_sliding_window": True,
                "max_window_layers": 0,
                "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            },
            (8, None, 8),
        ),
    ],
)
def test_windows(tmp_path, name, settings, windows):
    """The sliding window of each layer, by each family's own rule."""
    assert load(tmp_path, **named(name), **settings).windows == windows


def test_max_context_counts_scaling(tmp_path):
    """Dynamic and yarn scaling stretch the model beyond max_position_embeddings; llama3's maximum already counts it."""
    assert load(tmp_path).max_context == 256
    assert load(tmp_path, rope_scaling={"type": "dynamic", "factor": 2.0}).max_context == 512
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256}
    assert load(tmp_path, rope_scaling=yarn).max_context == 1024
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    assert load(tmp_path, rope_scaling=llama3).max_context == 256


def test_architecture_from_model_type(tmp_path):
    """A config without `architectures` is known by its model_type; of several names the supported one is taken."""
    assert load(tmp_path, architectures=...).architecture == "LlamaForCausalLM"
    assert load(tmp_path, architectures=None, model_type="qwen2").architecture == "Qwen2ForCausalLM"
    assert load(tmp_path, architectures=["Other", "MistralForCausalLM"]).architecture == "MistralForCausalLM"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["GPT2LMHeadModel"]}, ["GPT2LMHeadModel", *FAMILIES]),
        ({"architectures": "LlamaForCausalLM"}, ["'LlamaForCausalLM'", "must be a list"]),
        ({"architectures": 5}, ["architectures=5", "must be a list"]),
        ({"architectures": ..., "model_type": "mamba"}, ["mamba", *FAMILIES]),
        ({"architectures": ..., "model_type": ...}, ["names none", *FAMILIES]),
        ({"quantization_config": {"quant_method": "awq"}}, ["quantised"]),
        ({"hidden_act": "gelu"}, ["'gelu'", "silu"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor"]),
        ({"rope_scaling": {"type": "foo"}}, ["'foo'", "llama3"]),
        ({"vocab_size": ...}, ["lacks vocab_size"]),
        ({"hidden_size": "48"}, ["hidden_size='48'"]),
        ({"num_hidden_layers": 0}, ["num_hidden_layers=0"]),
        ({"num_key_value_heads": 4}, ["num_attention_heads=6", "num_key_value_heads=4"]),
        ({"num_attention_heads": 5, "num_key_value_heads": 5}, ["hidden_size=48", "num_attention_heads=5"]),
        ({"head_dim": 7}, ["head_dim=7"]),
        ({"rms_norm_eps": "small"}, ["rms_norm_eps='small'"]),
        ({"eos_token_id": "</s>"}, ["eos_token_id='</s>'"]),
        ({**named("Qwen2ForCausalLM"), "layer_types": ["full_attention"]}, ["layer_types", "3 layers"]),
        ({**named("Qwen2ForCausalLM"), "layer_types": ["linear_attention"] * 3}, ["linear_attention"]),
        ({**named("Qwen2ForCausalLM"), "layer_types": ["sliding_attention"] * 3}, ["use_sliding_window"]),
    ],
)
def test_what_cannot_run_is_refused(tmp_path, changes, words):
    """The error gives the value and what would be right."""
    with pytest.raises(ModelError) as error:
        load(tmp_path, **changes)
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("content", ['{"vocab_size": 32', "", "[1, 2]", "\x00\x01"])
def test_broken_files_are_named(tmp_path, file, content):
    """A file that is cut short, empty or of another kind is an error that gives its path."""
    load(tmp_path)
    (tmp_path / file).write_text(content)
    with pytest.raises(ModelError, match=file.replace(".", r"\.")):
        ModelConfig.load(tmp_path)


def test_no_config(tmp_path):
    """A folder without config.json is no model."""
    with pytest.raises(ModelError, match=r"config\.json does not exist"):
        ModelConfig.load(tmp_path)
