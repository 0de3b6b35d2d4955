"""Tiny random checkpoints in Hugging Face's layout, for tests that need a whole model but no sense in its text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

KINDS = ("llama", "mistral", "qwen2", "qwen3")

SMALL = {
    "vocab_size": 320,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


def make_checkpoint(path: Path, kind: str = "llama", seed: int = 0, max_shard_size: str = "1GB", **config: Any) -> Path:
    """Write a random model of that kind to the folder `path`, by transformers' own save_pretrained → path.

    Weights are large, so that a greedy token is a clear choice; biases and norm weights are random too, so that forgetting one
    shows. The same arguments give the same weights. `config` overrides SMALL and transformers' defaults.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = AutoConfig.for_model(kind, **{**SMALL, **config})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(settings)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if name.endswith("bias"):
                    parameter.normal_(std=0.5)
                elif "norm" in name:
                    parameter.uniform_(0.5, 1.5)
    model.save_pretrained(path, max_shard_size=max_shard_size)
    return Path(path)
