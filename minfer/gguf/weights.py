"""GGUF's tensors → model.safetensors, with Hugging Face's names and order of rows.

From: the tensors of a `GGUFFile`. To: `convert_gguf`; later `minfer/weights.py` reads the result.

llama.cpp rotates neighbours, (0, 1), (2, 3), ...; Hugging Face rotates the first half of a head with the second, (0, D/2),
(1, D/2 + 1), ... So GGUF stores a head's rows of q and k in the order 0, D/2, 1, D/2 + 1, ..., which `deinterleave` undoes.
Without it the model still writes English, only worse: text does not show the fault, the loss does.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from minfer.errors import ModelError
from minfer.gguf.file import GGUFFile

SAFETENSORS_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class Goal(NamedTuple):
    """What a tensor of the file becomes."""

    name: str
    shape: tuple[int, ...]  # [out, in], as PyTorch has it
    heads: int | None = None  # how many heads its rows are interleaved in


def plan_tensors(file: GGUFFile, config: dict[str, Any]) -> dict[str, Goal]:
    """What each tensor of the file becomes, by its GGUF name.

    Raises:
        ModelError: a tensor is missing, unknown, or has another shape than the settings ask for.
    """
    hidden, inner, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    layer = {
        "attn_norm": Goal("input_layernorm", (hidden,)),
        "attn_q": Goal("self_attn.q_proj", (heads * dim, hidden), heads),
        "attn_k": Goal("self_attn.k_proj", (kv_heads * dim, hidden), kv_heads),
        "attn_v": Goal("self_attn.v_proj", (kv_heads * dim, hidden)),
        "attn_output": Goal("self_attn.o_proj", (hidden, heads * dim)),
        "ffn_norm": Goal("post_attention_layernorm", (hidden,)),
        "ffn_gate": Goal("mlp.gate_proj", (inner, hidden)),
        "ffn_up": Goal("mlp.up_proj", (inner, hidden)),
        "ffn_down": Goal("mlp.down_proj", (hidden, inner)),
    }
    layers = config["num_hidden_layers"]
    if layers * len(layer) > len(file.tensors):
        raise ModelError(
            f"{file.source} has {len(file.tensors)} tensors, too few for {layers} layers: is it one part of a split model?"
        )
    goals = {"token_embd.weight": Goal("model.embed_tokens.weight", (config["vocab_size"], hidden))}
    for i in range(layers):
        for name, goal in layer.items():
            goals[f"blk.{i}.{name}.weight"] = goal._replace(name=f"model.layers.{i}.{goal.name}.weight")
    goals["output_norm.weight"] = Goal("model.norm.weight", (hidden,))
    if not config["tie_word_embeddings"]:
        goals["output.weight"] = Goal("lm_head.weight", (config["vocab_size"], hidden))
    check_tensors(file, goals)
    return goals


def check_tensors(file: GGUFFile, goals: dict[str, Goal]) -> None:
    """The file has the tensors that a Llama of its settings has, and no others."""
    present = file.tensors.keys() - {"rope_freqs.weight"}  # `config.py` has read that one
    if missing := sorted(goals.keys() - present):
        raise ModelError(f"{file.source} lacks {len(missing)} tensors, such as {missing[0]}: is it one part of a split model?")
    if unknown := sorted(present - goals.keys()):
        raise ModelError(f"{file.source} has {len(unknown)} tensors that a Llama model does not have, such as {unknown[0]}")
    for name, goal in goals.items():
        if file.shape(name) != goal.shape:
            raise ModelError(f"{file.source}: {name} is {list(file.shape(name))}, but its settings ask for {list(goal.shape)}")


def deinterleave(weight: np.ndarray, heads: int) -> np.ndarray:
    """Each head's rows from GGUF's order into Hugging Face's. weight [heads * D, in] → the same shape."""
    rows, width = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2).reshape(rows, width)


def write_safetensors(path: Path, file: GGUFFile, goals: dict[str, Goal], dtype: torch.dtype) -> None:
    """Write the tensors one after the other, so that a model larger than the memory can be converted.

    The format is a length (8 bytes), that many bytes of JSON (name → dtype, shape, byte range), then the tensors.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for goal in goals.values():
        start, end = end, end + int(np.prod(goal.shape)) * dtype.itemsize
        header[goal.name] = {"dtype": SAFETENSORS_NAMES[dtype], "shape": goal.shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the tensors start at a multiple of 8
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, goal in goals.items():
            weight = file.read(name)
            if goal.heads:
                weight = deinterleave(weight, goal.heads)
            tensor = torch.tensor(weight).to(dtype)
            out.write(tensor.view(torch.uint8).numpy())
