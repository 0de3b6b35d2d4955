"""A tiny decoder with random weights, made in memory: for tests of what runs a model, where its text does not matter."""

from __future__ import annotations

import torch

from minfer.model import Decoder, Functions
from minfer.model_config import ModelConfig
from minfer.parts import KV
from minfer.rope import RopeConfig
from minfer.testing.batches import make_cache
from minfer.testing.decoding import TORCH_FUNCTIONS

CONFIG = ModelConfig(
    architecture="LlamaForCausalLM", vocab_size=61, hidden_size=16, intermediate_size=24, num_layers=2, num_heads=4, num_kv_heads=2,
    head_dim=8, rms_norm_eps=1e-5, rope=RopeConfig(), max_position_embeddings=128, tie_word_embeddings=False, qkv_bias=True,
    o_bias=False, mlp_bias=False, qk_norm=False, windows=(None, None), eos_ids=(2,), bos_id=1, pad_id=0, dtype="float32",
)  # fmt: skip


def tiny_decoder(functions: Functions = TORCH_FUNCTIONS, device: str = "cpu", seed: int = 0) -> Decoder:
    """Two layers, float32; its weights are large, so that a greedy token is a clear choice."""
    decoder = Decoder(CONFIG, functions, torch.float32, device, CONFIG.max_position_embeddings)
    random = torch.Generator().manual_seed(seed)
    for name, parameter in decoder.named_parameters():
        shift = 1.0 if "norm" in name else 0.0
        parameter.data.copy_(torch.randn(parameter.shape, generator=random) * 0.3 + shift)
    decoder.pack()
    return decoder


def tiny_cache(num_blocks: int, block_size: int, device: str = "cpu") -> list[KV]:
    """A cache for each of its layers, full of NaN."""
    shape = num_blocks, block_size, CONFIG.num_kv_heads, CONFIG.head_dim
    return [make_cache(*shape, torch.float32, device=device) for _ in range(CONFIG.num_layers)]
