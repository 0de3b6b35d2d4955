"""Small GGUF files for tests, written from a random transformers model and a vocabulary made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from transformers import LlamaConfig, LlamaForCausalLM

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in a byte-level BPE, in the order of the bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = iter(range(256, 512))
    return [chr(byte) if byte in shown else chr(next(hidden)) for byte in range(256)]


MERGES = ["t h", "th e", "1 2", "12 3", "123 4", "Ġ a", "a n", "an d"]
SPECIAL = ["<bos>", "<eos>", "<turn>"]
TOKENS = SPECIAL + byte_alphabet() + [merge.replace(" ", "") for merge in MERGES] + ["<plain>", "[PAD268]"]
KINDS = [CONTROL] * 3 + [NORMAL] * (256 + len(MERGES)) + [USER_DEFINED, UNUSED]


def random_llama(seed: int = 0, **overrides: Any) -> LlamaForCausalLM:
    """A model small enough to be made in milliseconds, with weights large enough that every mistake moves the logits."""
    settings = {
        "vocab_size": len(TOKENS),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e4,
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
    }
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(**settings | overrides)).eval()


def interleave(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """GGUF's order of q's and k's rows, spelt out row by row."""
    dim = len(weight) // heads
    rows = [head * dim + half * (dim // 2) + i for head in range(heads) for i in range(dim // 2) for half in (0, 1)]
    return weight[rows]


@torch.no_grad()
def write_gguf(
    path: Path,
    model: LlamaForCausalLM,
    kind: str = "F32",
    drop: str = "",
    extra: dict[str, Any] | None = None,
    extra_type: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    **fields: Any,
) -> Path:
    """Write the model. Its matrices are quantised as `kind`, and then hold what quantisation left of them.

    Args:
        drop: the name of a tensor to leave out.
        extra: tensors to add, of the type `extra_type`.
        fields: key-value pairs to add or, with None, to leave out; "__" stands for ".".
    """
    config = model.config
    writer = gguf.GGUFWriter(path, fields.pop("general__architecture", "llama"))
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for key, value in (default_fields(config) | {key.replace("__", "."): value for key, value in fields.items()}).items():
        if value is not None:
            add_field(writer, key, value)
    state = model.state_dict()
    if config.tie_word_embeddings:
        state.pop("lm_head.weight")
    for name, weight in state.items():
        target = gguf_name(name)
        qtype = gguf.GGMLQuantizationType[kind if weight.dim() == 2 else "F32"]
        data = quantize(weight.numpy(), qtype)
        weight.copy_(torch.tensor(dequantize(data, qtype)))
        if target.split(".")[-2] in heads:
            data = quantize(interleave(weight, heads[target.split(".")[-2]]).numpy(), qtype)
        if target != drop:
            writer.add_tensor(target, data, raw_dtype=qtype)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, np.asarray(tensor), raw_dtype=extra_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def gguf_name(name: str) -> str:
    """model.layers.0.self_attn.q_proj.weight → blk.0.attn_q.weight."""
    whole = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    if name.removesuffix(".weight") in whole:
        return whole[name.removesuffix(".weight")] + ".weight"
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"


def default_fields(config: LlamaConfig) -> dict[str, Any]:
    return {
        "llama.context_length": config.max_position_embeddings,
        "llama.embedding_length": config.hidden_size,
        "llama.block_count": config.num_hidden_layers,
        "llama.feed_forward_length": config.intermediate_size,
        "llama.attention.head_count": config.num_attention_heads,
        "llama.attention.head_count_kv": config.num_key_value_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "llama.rope.freq_base": float(config.rope_parameters["rope_theta"]),
        "llama.rope.dimension_count": config.head_dim,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": KINDS,
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.padding_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
    }


def add_field(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """With the type that llama.cpp's converters choose."""
    if isinstance(value, list | np.ndarray):
        writer.add_array(key, list(value))
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)
