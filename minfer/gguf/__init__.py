"""GGUF → a Hugging Face folder, so that the engine knows one format of checkpoints, and GGUF ends here.

From: `hub.py`, with a GGUF file of the Llama architecture. To: a folder that `model_config.py`, `weights.py` and `tokenizer.py`
read as they read any other.

A GGUF file is a list of key-value pairs, then a list of tensors. It differs from a Hugging Face checkpoint in four ways, one
module each: a binary container (`file.py`), other names for the settings (`config.py`), a tokenizer in key-value pairs
(`tokenizer.py`), and tensors that are renamed, quantised and, for q and k, reordered (`weights.py`).

Sources: docs/gguf.md in github.com/ggml-org/ggml, and llama.cpp's convert_hf_to_gguf.py, which does the opposite.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from minfer.gguf.config import make_config
from minfer.gguf.file import GGUFFile, need_package
from minfer.gguf.tokenizer import special_ids, write_tokenizer
from minfer.gguf.weights import plan_tensors, write_safetensors

__all__ = ["VERSION", "convert_gguf", "need_package"]

VERSION = 1  # raise it whenever the folder written for a given file changes: caches are keyed by it


def convert_gguf(source: Path, target: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write the checkpoint in `source` as config.json, generation_config.json, model.safetensors and tokenizer files.

    Args:
        source: a GGUF file, architecture llama, with a byte-level BPE tokenizer.
        target: the folder to write into; made if missing. A failure leaves it unfinished: atomicity is the caller's business.
        dtype: of the weights; float32 keeps every quantised value exactly. One tensor at a time is held in memory.

    Raises:
        ModelError: the gguf package is missing, the file is broken, or it holds what minfer does not support.
    """
    file = GGUFFile(source)
    config = make_config(file)
    goals = plan_tensors(file, config)
    target.mkdir(parents=True, exist_ok=True)
    write_tokenizer(file, target, config["vocab_size"], config["max_position_embeddings"])
    ids = special_ids(file)
    write_json(target / "generation_config.json", ids)
    write_json(target / "config.json", config | ids | {"dtype": str(dtype).removeprefix("torch.")})
    write_safetensors(target / "model.safetensors", file, goals, dtype)


def write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
