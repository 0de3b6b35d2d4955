"""ModelConfig: what a checkpoint's config.json says of the model, checked once.

From: a folder in Hugging Face's layout. To: `model.py` builds the decoder from it, `weights.py` checks the tensors against it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from minfer import dummy
from minfer.errors import ModelError
from minfer.rope import RopeConfig


class Family(NamedTuple):
    """How an architecture differs from Llama. None: config.json says."""

    model_type: str
    qkv_bias: bool | None = None
    o_bias: bool | None = None
    mlp_bias: bool | None = False
    qk_norm: bool = False
    head_dim: int | None = None  # where config.json gives none; None: hidden_size / num_attention_heads


FAMILIES = {
    "LlamaForCausalLM": Family("llama", mlp_bias=None),
    "MistralForCausalLM": Family("mistral", qkv_bias=False, o_bias=False),
    "Qwen2ForCausalLM": Family("qwen2", qkv_bias=True, o_bias=False),
    "Qwen3ForCausalLM": Family("qwen3", qk_norm=True, head_dim=128),
}


@dataclass(frozen=True)
class ModelConfig:
    """The shape of one decoder-only model. Sizes are numbers of elements."""

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope: RopeConfig
    max_position_embeddings: int
    tie_word_embeddings: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool  # q and k are normalised per head before they are rotated
    windows: tuple[int | None, ...]  # per layer: tokens a token sees, itself included; None: all
    eos_ids: tuple[int, ...]
    bos_id: int | None
    pad_id: int | None
    dtype: str | None  # what the weights were saved as, for example "bfloat16"

    @property
    def max_context(self) -> int:
        """Positions that the model can be run for: more than max_position_embeddings where RoPE scaling stretches them."""
        stretched = {
            "dynamic": self.max_position_embeddings * self.rope.factor,
            "yarn": self.rope.original_max_position_embeddings * self.rope.factor,
        }
        return max(self.max_position_embeddings, int(stretched.get(self.rope.type, 0)))

    def kv_bytes_per_token(self, dtype: torch.dtype) -> int:
        """Bytes of K and V that one token takes in the cache, all layers together."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * dtype.itemsize

    @staticmethod
    def load(path: Path) -> ModelConfig:
        """Read config.json, and generation_config.json where there is one, from the folder `path`; or take a shape's settings.

        Raises:
            ModelError: a file is missing or no JSON, a setting is missing or out of range, or the model is of a kind that
                minfer does not run; the message says which kinds it does.
        """
        config = dummy.settings(path) or _read_json(Path(path) / "config.json")
        generation = _read_json(Path(path) / "generation_config.json", optional=True)
        architecture = _architecture(config)
        family = FAMILIES[architecture]
        _refuse_unsupported(config)

        hidden, heads = _size(config, "hidden_size"), _size(config, "num_attention_heads")
        kv_heads = _size(config, "num_key_value_heads", heads)
        if heads % kv_heads:
            raise ModelError(f"config.json: num_attention_heads={heads} is not a multiple of num_key_value_heads={kv_heads}")
        if not family.head_dim and not config.get("head_dim") and hidden % heads:
            raise ModelError(f"config.json: without head_dim, hidden_size={hidden} must divide by num_attention_heads={heads}")
        head_dim = _size(config, "head_dim", family.head_dim or hidden // heads)
        if head_dim % 2 or head_dim < 4:
            raise ModelError(f"config.json: head_dim={head_dim} must be even and at least 4: RoPE rotates pairs")

        attention_bias = bool(config.get("attention_bias", False))
        mlp_bias = bool(config.get("mlp_bias", False))
        num_layers, longest = _size(config, "num_hidden_layers"), _size(config, "max_position_embeddings")
        return ModelConfig(
            architecture=architecture,
            vocab_size=_size(config, "vocab_size"),
            hidden_size=hidden,
            intermediate_size=_size(config, "intermediate_size"),
            num_layers=num_layers,
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=head_dim,
            rms_norm_eps=_positive(config, "rms_norm_eps", 1e-6),
            rope=RopeConfig.parse(config, longest),
            max_position_embeddings=longest,
            tie_word_embeddings=bool(config.get("tie_word_embeddings", False)),
            qkv_bias=attention_bias if family.qkv_bias is None else family.qkv_bias,
            o_bias=attention_bias if family.o_bias is None else family.o_bias,
            mlp_bias=mlp_bias if family.mlp_bias is None else family.mlp_bias,
            qk_norm=family.qk_norm,
            windows=_windows(config, family, num_layers),
            eos_ids=tuple(dict.fromkeys(_ids(config, "eos_token_id") + _ids(generation, "eos_token_id"))),
            bos_id=next(iter(_ids(config, "bos_token_id") + _ids(generation, "bos_token_id")), None),
            pad_id=next(iter(_ids(config, "pad_token_id") + _ids(generation, "pad_token_id")), None),
            dtype=config.get("dtype") or config.get("torch_dtype"),
        )


def _read_json(file: Path, optional: bool = False) -> dict[str, Any]:
    if not file.is_file():
        if optional:
            return {}
        raise ModelError(f"{file} does not exist; a model is a folder with config.json, *.safetensors and tokenizer files")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ModelError(f"{file} cannot be read ({error}); it may be cut short: download the model again") from error
    if not isinstance(content, dict):
        raise ModelError(f"{file} holds a {type(content).__name__}, not a table of settings; download the model again")
    return content


def _architecture(config: dict[str, Any]) -> str:
    """The first supported name in `architectures`; where the file lists none, what `model_type` stands for."""
    named = config.get("architectures")
    if named and not isinstance(named, list):
        raise ModelError(f"config.json: architectures={named!r} must be a list of names, such as {list(FAMILIES)[:1]}")
    named = named or [name for name, family in FAMILIES.items() if family.model_type == config.get("model_type")]
    for name in named:
        if name in FAMILIES:
            return name
    what = ", ".join(map(str, named)) or config.get("model_type") or "(config.json names none)"
    raise ModelError(f"architecture {what} is not supported; the supported ones are {', '.join(FAMILIES)}")


def _refuse_unsupported(config: dict[str, Any]) -> None:
    if config.get("quantization_config") is not None:
        raise ModelError("config.json: quantised weights are not supported; take the float32, float16 or bfloat16 model")
    if config.get("hidden_act", "silu") != "silu":
        raise ModelError(f"config.json: hidden_act={config['hidden_act']!r} is not supported; supported is silu")


def _size(config: dict[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name)
    value = default if value is None else value
    if value is None:
        raise ModelError(f"config.json lacks {name}; the file may be of another kind of model, or cut short")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelError(f"config.json: {name}={value!r} must be a whole number of at least 1")
    return value


def _positive(config: dict[str, Any], name: str, default: float) -> float:
    value = config.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ModelError(f"config.json: {name}={value!r} must be a number above 0")
    return float(value)


def _ids(config: dict[str, Any], name: str) -> list[int]:
    """Token ids of a setting that holds one, a list or none."""
    value = config.get(name)
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if any(isinstance(token, bool) or not isinstance(token, int) for token in ids):
        raise ModelError(f"{name}={value!r} must be a token id or a list of them")
    return [token for token in ids if token >= 0]


def _windows(config: dict[str, Any], family: Family, num_layers: int) -> tuple[int | None, ...]:
    """The sliding window of each layer, with transformers' defaults where the file leaves something out."""
    if family.model_type == "llama":
        return (None,) * num_layers
    window = None if config.get("sliding_window", 4096) is None else _size(config, "sliding_window", 4096)
    if family.model_type == "mistral":
        return (window,) * num_layers
    window = window if config.get("use_sliding_window", False) else None
    types = config.get("layer_types")
    if types is None:
        first = config.get("max_window_layers", 28)
        return tuple(window if layer >= first else None for layer in range(num_layers))
    if len(types) != num_layers or set(types) - {"full_attention", "sliding_attention"}:
        raise ModelError(
            f"config.json: layer_types={types} must give full_attention or sliding_attention for each of {num_layers} layers"
        )
    if "sliding_attention" in types and window is None:
        raise ModelError("config.json: layer_types has sliding_attention, but use_sliding_window or sliding_window is not set")
    return tuple(window if kind == "sliding_attention" else None for kind in types)
