"""GGUF's settings → what config.json says.

From: the key-value pairs of a `GGUFFile`. To: `convert_gguf`, which writes it; later `minfer/model_config.py` reads it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minfer.errors import ModelError
from minfer.gguf.file import GGUFFile

# Llama 3's RoPE scaling. Between the models of that family only `factor` varies.
LLAMA3_ROPE = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def make_config(file: GGUFFile) -> dict[str, Any]:
    """The content of config.json, less the special tokens' ids.

    Raises:
        ModelError: another architecture, or a variant of it that minfer's decoder does not know.
    """
    arch = file.get("general.architecture", str)
    if arch != "llama":
        raise ModelError(
            f"{file.source} holds the architecture {arch!r}; of GGUF files minfer reads only 'llama' (Llama, SmolLM2 and "
            "the like). Take its safetensors checkpoint instead"
        )
    if experts := file.get("llama.expert_count", int, 0):
        raise ModelError(f"{file.source} is a mixture of {experts} experts; minfer supports dense models only")
    if "token_embd.weight" not in file.tensors:
        raise ModelError(f"{file.source} has no token_embd.weight: it is only a vocabulary, or one part of a split model")
    hidden = file.count("llama.embedding_length")
    heads = file.count("llama.attention.head_count")
    kv_heads = file.count("llama.attention.head_count_kv", heads)
    head_dim = file.count("llama.attention.key_length", hidden // heads)
    rotated = file.count("llama.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise ModelError(f"{file.source} rotates {rotated} of a head's {head_dim} values; minfer supports full rotation only")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": file.shape("token_embd.weight")[0],
        "hidden_size": hidden,
        "intermediate_size": file.count("llama.feed_forward_length"),
        "num_hidden_layers": file.count("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": file.count("llama.context_length"),
        "rms_norm_eps": shortest(file.get("llama.attention.layer_norm_rms_epsilon", float)),
        "rope_theta": shortest(file.get("llama.rope.freq_base", float, 10000.0)),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
    }
    scaling = rope_scaling(file, config)
    return config | {"rope_scaling": scaling} if scaling else config


def shortest(value: float) -> float:
    """The number that was meant, from its float32: 9.9999997e-06 is 1e-05."""
    return float(str(np.float32(value)))


def rope_scaling(file: GGUFFile, config: dict[str, Any]) -> dict[str, Any] | None:
    """config.json's rope_scaling; None where positions are not scaled."""
    kind = file.get("llama.rope.scaling.type", str, "none")
    if "rope_freqs.weight" in file.tensors:
        return llama3_scaling(file, config)
    if kind == "linear":
        return {"rope_type": "linear", "factor": shortest(file.get("llama.rope.scaling.factor", float))}
    if kind != "none":
        raise ModelError(f"{file.source} scales RoPE by {kind!r}; of GGUF files minfer reads none, linear and llama3")
    return None


def llama3_scaling(file: GGUFFile, config: dict[str, Any]) -> dict[str, Any]:
    """The llama3 setting that gives the file's rope_freqs [D / 2]: what each frequency is divided by.

    The slowest frequencies are divided by `factor`, so it is the largest value; the fast ones are left alone.
    """
    divisors = file.read("rope_freqs.weight")
    factor = round(float(divisors.max()), 4)
    low, high, length = LLAMA3_ROPE.values()
    turns = length / (2 * np.pi) * config["rope_theta"] ** (-2 * np.arange(len(divisors)) / config["head_dim"])
    fast = np.clip((turns - low) / (high - low), 0, 1)
    if len(divisors) != config["head_dim"] // 2 or not np.allclose(divisors, 1 / ((1 - fast) / factor + fast), rtol=1e-3):
        raise ModelError(f"{file.source} scales RoPE by frequencies that are not Llama 3's; minfer has no RoPE type for them")
    return {"rope_type": "llama3", "factor": factor, **LLAMA3_ROPE}
