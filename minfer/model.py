"""The decoder: one step of a Llama-like model, top to bottom.

From: the runner brings a Batch of tokens and the cache. To: hidden states; the runner sends those to be sampled through `head`.

The mathematics comes from outside as plain functions (`Functions`), one per slot. Shapes as in `minfer/parts.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from minfer import parts
from minfer.model_config import ModelConfig
from minfer.parts import KV
from minfer.rope import Rope
from minfer.types import Batch


class Functions(NamedTuple):
    """What the decoder computes with: one part for each of these slots."""

    linear: parts.Linear
    norm: parts.Norm
    write_kv: parts.WriteKV
    attention: parts.Attention
    activation: parts.Activation


def empty(*shape: int, **where) -> nn.Parameter:
    """A weight that `weights.py` will fill."""
    return nn.Parameter(torch.empty(*shape, **where), requires_grad=False)


class Linear(nn.Module):
    """y = x Wᵀ + b. Weight [O, I], bias [O] or None."""

    def __init__(self, function: parts.Linear, num_in: int, num_out: int, bias: bool, **where):
        super().__init__()
        self.function = function
        self.weight = empty(num_out, num_in, **where)
        self.bias = empty(num_out, **where) if bias else None

    def pack(self) -> None:
        """Lay the loaded weight out as the function wants it, if it cares."""
        if hasattr(self.function, "pack"):
            self.weight = nn.Parameter(self.function.pack(self.weight), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.weight, self.bias)


class Embedding(nn.Module):
    """Token ids [T] → rows of the weight [V, H]."""

    def __init__(self, num_rows: int, size: int, **where):
        super().__init__()
        self.weight = empty(num_rows, size, **where)

    def forward(self, token_ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(token_ids, self.weight)


class RMSNorm(nn.Module):
    """Adds the residual, then normalises: (x, residual) → (normalised, new residual)."""

    def __init__(self, function: parts.Norm, size: int, eps: float, **where):
        super().__init__()
        self.function, self.eps = function, eps
        self.weight = empty(size, **where)

    def forward(self, x: torch.Tensor, residual: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        return self.function(x, residual, self.weight, self.eps)


class Attention(nn.Module):
    """Self-attention. It counts its heads from the widths of its projections, so that they may be cut by heads from outside."""

    def __init__(self, config: ModelConfig, layer: int, functions: Functions, **where):
        super().__init__()
        H, Hq, Hkv, D = config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim
        self.functions, self.head_dim, self.eps = functions, D, config.rms_norm_eps
        self.scale, self.window = D**-0.5, config.windows[layer]
        self.qkv_proj = Linear(functions.linear, H, (Hq + 2 * Hkv) * D, config.qkv_bias, **where)
        self.o_proj = Linear(functions.linear, Hq * D, H, config.o_bias, **where)
        self.q_norm = empty(D, **where) if config.qk_norm else None
        self.k_norm = empty(D, **where) if config.qk_norm else None

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, kv: KV, batch: Batch) -> torch.Tensor:
        qkv = self.qkv_proj(x).view(x.shape[0], -1, self.head_dim)
        Hq = self.o_proj.weight.shape[1] // self.head_dim
        Hkv = (qkv.shape[1] - Hq) // 2
        q, k, v = qkv.split((Hq, Hkv, Hkv), dim=1)
        q = self.functions.write_kv(q, k, v, cos, sin, kv, batch.slots, self.q_norm, self.k_norm, self.eps)
        out = self.functions.attention(q, kv, batch, self.scale, self.window)
        return self.o_proj(out.reshape(x.shape[0], -1))


class MLP(nn.Module):
    """down(silu(gate(x)) * up(x)), with gate and up in one product."""

    def __init__(self, config: ModelConfig, functions: Functions, **where):
        super().__init__()
        H, size = config.hidden_size, config.intermediate_size
        self.activation = functions.activation
        self.gate_up_proj = Linear(functions.linear, H, 2 * size, config.mlp_bias, **where)
        self.down_proj = Linear(functions.linear, size, H, config.mlp_bias, **where)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.activation(self.gate_up_proj(x)))


class Layer(nn.Module):
    """Attention and MLP, each behind a norm. The residual runs beside them; each norm adds what came before it."""

    def __init__(self, config: ModelConfig, layer: int, functions: Functions, **where):
        super().__init__()
        self.input_layernorm = RMSNorm(functions.norm, config.hidden_size, config.rms_norm_eps, **where)
        self.self_attn = Attention(config, layer, functions, **where)
        self.post_attention_layernorm = RMSNorm(functions.norm, config.hidden_size, config.rms_norm_eps, **where)
        self.mlp = MLP(config, functions, **where)

    def forward(
        self, x: torch.Tensor, residual: torch.Tensor | None, cos: torch.Tensor, sin: torch.Tensor, kv: KV, batch: Batch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        x, residual = self.input_layernorm(x, residual)
        x = self.self_attn(x, cos, sin, kv, batch)
        x, residual = self.post_attention_layernorm(x, residual)
        return self.mlp(x), residual


class Decoder(nn.Module):
    """The whole model. Weights are empty until `weights.load_decoder` fills them; no positions from max_len on."""

    def __init__(self, config: ModelConfig, functions: Functions, dtype: torch.dtype, device: torch.device | str, max_len: int):
        super().__init__()
        where = {"dtype": dtype, "device": device}
        self.config = config
        self.rope = Rope(config.rope, config.head_dim, max_len, device)
        self.embed_tokens = Embedding(config.vocab_size, config.hidden_size, **where)
        self.layers = nn.ModuleList(Layer(config, layer, functions, **where) for layer in range(config.num_layers))
        self.norm = RMSNorm(functions.norm, config.hidden_size, config.rms_norm_eps, **where)
        if config.tie_word_embeddings:
            self.lm_head = Linear(functions.linear, 0, 0, False, **where)
            self.lm_head.weight = self.embed_tokens.weight
        else:
            self.lm_head = Linear(functions.linear, config.hidden_size, config.vocab_size, False, **where)

    def pack(self) -> None:
        """After loading: give the `linear` part its say on how weights lie in memory."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.pack()

    def forward(self, batch: Batch, kv: list[KV]) -> torch.Tensor:
        """Run the batch's T new tokens through all layers, writing their K and V into `kv` (one pair a layer) → [T, H]."""
        cos, sin = self.rope.cos_sin(batch.positions, batch.rope_lens)
        x, residual = self.embed_tokens(batch.token_ids), None
        for layer, layer_kv in zip(self.layers, kv, strict=True):
            x, residual = layer(x, residual, cos, sin, layer_kv, batch)
        return self.norm(x, residual)[0]

    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [N, H] → logits [N, V] over the vocabulary."""
        return self.lm_head(hidden)
