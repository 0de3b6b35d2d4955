"""Runs the decoder by hand over scattered pages, without an engine: for tests of the model and of its parts."""

from __future__ import annotations

from pathlib import Path

import torch

from minfer.activation.torch import silu_mul
from minfer.attention.torch import attention
from minfer.linear.torch import linear
from minfer.model import Decoder, Functions
from minfer.model_config import ModelConfig
from minfer.norm.torch import add_rms_norm
from minfer.testing.batches import make_batch, make_cache, scattered_tables
from minfer.weights import load_decoder
from minfer.write_kv.torch import write_kv

TORCH_FUNCTIONS = Functions(linear, add_rms_norm, write_kv, attention, silu_mul)


def load(path: Path, functions: Functions = TORCH_FUNCTIONS, dtype: torch.dtype = torch.float32) -> Decoder:
    """The checkpoint in the folder as a decoder on the CPU, for up to 512 positions."""
    return load_decoder(path, ModelConfig.load(path), functions, dtype, "cpu", 512)


@torch.inference_mode()
def compute_logits(
    decoder: Decoder,
    prompts: list[list[int]],
    chunks: list[list[int]],
    block_size: int = 4,
    prompt_lens: list[int] | None = None,
) -> list[torch.Tensor]:
    """Logits [length, V] of every token of each prompt, computed together, each prompt in chunks of the sizes given.

    Step s takes chunks[i][s] tokens of prompt i; when the sizes run out, one token a step. So single tokens and longer chunks meet
    in one batch. The cache starts full of NaN. prompt_lens matter to dynamic RoPE only, and default to the full lengths.
    """
    config, dtype = decoder.config, decoder.embed_tokens.weight.dtype
    lengths = [len(prompt) for prompt in prompts]
    tables, num_blocks = scattered_tables(lengths, block_size)
    kv = [make_cache(num_blocks, block_size, config.num_kv_heads, config.head_dim, dtype) for _ in range(config.num_layers)]
    done = [0] * len(prompts)
    logits: list[list[torch.Tensor]] = [[] for _ in prompts]
    for step in range(max(lengths)):
        sizes = {}
        for i, prompt in enumerate(prompts):
            size = chunks[i][step] if step < len(chunks[i]) else 1
            if done[i] < len(prompt):
                sizes[i] = min(size, len(prompt) - done[i])
        order = sorted(sizes, key=lambda i: sizes[i] > 1)  # single tokens first
        if not order:
            break
        works = [(prompts[i][done[i] : done[i] + sizes[i]], done[i]) for i in order]
        lens = [(prompt_lens or lengths)[i] for i in order]
        batch = make_batch(works, [tables[i] for i in order], block_size, lens)
        out = decoder.head(decoder(batch, kv)).split([sizes[i] for i in order])
        for i, rows in zip(order, out, strict=True):
            logits[i].append(rows)
            done[i] += sizes[i]
    return [torch.cat(rows) for rows in logits]
