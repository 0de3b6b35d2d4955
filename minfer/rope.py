"""Rotary position embedding: the settings that config.json gives, and the cosines and sines of each token.

From: `model_config.py` parses RopeConfig; the batch brings each token's position. To: `write_kv` rotates q and k with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from minfer.errors import ModelError

ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn")


@dataclass(frozen=True)
class RopeConfig:
    """One of ROPE_TYPES with its parameters. A field that the type does not use keeps its default."""

    type: str = "default"
    theta: float = 10000.0
    factor: float = 1.0
    max_position_embeddings: int = 0  # dynamic: the length beyond which it scales
    original_max_position_embeddings: int = 0  # llama3, yarn: the length before it was stretched
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0  # llama3
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0  # yarn
    attention_factor: float = 1.0  # yarn: cosines and sines are multiplied by it
    truncate: bool = True  # yarn

    def cache_salt(self, num_prompt: int) -> int:
        """Prompts whose K can be shared have the same salt. Dynamic scaling rotates a long prompt by its own length."""
        return num_prompt if self.type == "dynamic" and num_prompt > self.max_position_embeddings else 0

    @staticmethod
    def parse(config: dict[str, Any], max_position_embeddings: int) -> RopeConfig:
        """Read the settings from a parsed config.json, in any of the forms that transformers has written.

        The type and its parameters stand in `rope_scaling` or in `rope_parameters`; `rope_theta` stands beside or inside them
        (inside wins); the type is called `rope_type` or `type`. What the file does not say is as in transformers: theta 10000.

        Raises:
            ModelError: a type or layout that is not supported, or a parameter that is missing or no positive number.
        """
        rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
        if not isinstance(rope, dict) or any(isinstance(value, dict) for value in rope.values()):
            raise ModelError(f"config.json: rope settings {rope!r} are not supported; give one flat table for all layers")
        kind = rope.get("rope_type") or rope.get("type") or "default"
        if kind not in ROPE_TYPES:
            raise ModelError(f"config.json: RoPE type {kind!r} is not supported; supported are {', '.join(ROPE_TYPES)}")
        if (rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0) != 1.0:
            raise ModelError("config.json: partial_rotary_factor is not supported; the whole head must be rotated")

        def number(name: str, *defaults: Any) -> Any:
            value = next((value for value in (rope.get(name), *defaults) if value is not None), None)
            if value is None:
                raise ModelError(f"config.json: RoPE type {kind!r} needs {name}, which is missing")
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ModelError(f"config.json: {name}={value!r} of the rope settings must be a positive number")
            return value

        theta = number("rope_theta", config.get("rope_theta"), 10000.0)
        if kind == "default":
            return RopeConfig(theta=theta)
        if kind in ("linear", "dynamic"):
            return RopeConfig(kind, theta, number("factor"), max_position_embeddings)
        beside = config.get("original_max_position_embeddings")  # transformers lets this one win
        original = beside or number("original_max_position_embeddings", max_position_embeddings)
        if kind == "llama3":
            low, high = number("low_freq_factor"), number("high_freq_factor")
            if low >= high:
                raise ModelError(f"config.json: low_freq_factor={low} must be below high_freq_factor={high}")
            return RopeConfig(kind, theta, number("factor"), max_position_embeddings, original, low, high)
        factor = number("factor", max_position_embeddings / original)
        inferred = _yarn_mscale(factor, 1.0)
        if rope.get("mscale") and rope.get("mscale_all_dim"):
            inferred = _yarn_mscale(factor, number("mscale")) / _yarn_mscale(factor, number("mscale_all_dim"))
        return RopeConfig(
            kind,
            theta,
            factor,
            max_position_embeddings,
            original,
            beta_fast=number("beta_fast", 32.0),
            beta_slow=number("beta_slow", 1.0),
            attention_factor=number("attention_factor", inferred),
            truncate=bool(rope.get("truncate", True)),
        )


def _yarn_mscale(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """Radians per position of each pair of the head, [D / 2] float32, on the CPU. Of `dynamic`: before it scales."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim
    frequencies = 1.0 / rope.theta**exponents
    if rope.type == "linear":
        return frequencies / rope.factor
    if rope.type == "llama3":
        return _llama3(rope, frequencies)
    if rope.type == "yarn":
        return _yarn(rope, frequencies, head_dim)
    return frequencies


def _llama3(rope: RopeConfig, frequencies: torch.Tensor) -> torch.Tensor:
    """Long waves are stretched by `factor`, short ones kept, those between blended (Llama 3.1's model card)."""
    turns = rope.original_max_position_embeddings * frequencies / (2 * math.pi)  # full turns within the original length
    kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    kept = kept.clamp(0.0, 1.0)
    return kept * frequencies + (1 - kept) * frequencies / rope.factor


def _yarn(rope: RopeConfig, frequencies: torch.Tensor, head_dim: int) -> torch.Tensor:
    """As `_llama3`, but the blend runs linearly over the pair's index (Peng et al. 2023, arXiv:2309.00071, section 3.2)."""

    def pair_that_turns(times: float) -> float:
        length = rope.original_max_position_embeddings
        return head_dim * math.log(length / (times * 2 * math.pi)) / (2 * math.log(rope.theta))

    low, high = pair_that_turns(rope.beta_fast), pair_that_turns(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low if high != low else 0.001
    stretched = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / width).clamp(0.0, 1.0)
    return stretched * frequencies / rope.factor + (1 - stretched) * frequencies


class Rope:
    """Looks up the cosine and sine of every token's angles.

    All types but `dynamic` have fixed frequencies, so a table of all positions is made once: max_len * D float32.
    """

    def __init__(self, config: RopeConfig, head_dim: int, max_len: int, device: torch.device | str):
        self.config = config
        self.head_dim = head_dim
        self.frequencies = inverse_frequencies(config, head_dim).to(device)
        self.exponents = (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim).to(device)
        self.table: torch.Tensor | None = None  # [max_len, D]: cosines, then sines
        if config.type != "dynamic":
            angles = torch.arange(max_len, dtype=torch.float32, device=device)[:, None] * self.frequencies
            self.table = torch.cat((angles.cos(), angles.sin()), dim=-1) * config.attention_factor

    def cos_sin(self, positions: torch.Tensor, rope_lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """positions [T] int64, rope_lens [T] int64 (see types.Batch) → cos and sin, [T, D / 2] float32 each."""
        if self.table is not None:
            cos, sin = self.table.index_select(0, positions).chunk(2, dim=-1)
            return cos, sin
        angles = positions[:, None].float() * self._dynamic_frequencies(rope_lens)
        return angles.cos(), angles.sin()

    def _dynamic_frequencies(self, rope_lens: torch.Tensor) -> torch.Tensor:
        """NTK scaling: theta grows with the length that a token was computed for → [T, D / 2].

        Each token has its own: they depend neither on batch mates nor on how a prompt is cut into chunks.
        """
        rope, D = self.config, self.head_dim
        growth = rope.factor * rope_lens.float() / rope.max_position_embeddings - (rope.factor - 1)
        theta = rope.theta * growth.clamp_min(1.0) ** (D / (D - 2))
        scaled = 1.0 / theta[:, None] ** self.exponents
        return torch.where((rope_lens > rope.max_position_embeddings)[:, None], scaled, self.frequencies)
