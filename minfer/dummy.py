"""Models without files: named shapes with random weights, for measuring speed where the text does not matter.

From: a model's name, such as "dummy:qwen3-0.6b". To: `model_config.py` takes the settings; `weights.py` and `hf_model.py`, the weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minfer.errors import ModelError

if TYPE_CHECKING:
    import torch

PREFIX = "dummy:"


def _llama(hidden: int, layers: int, heads: int, kv_heads: int, head_dim: int, mlp: int, vocab: int, **others: Any) -> dict[str, Any]:
    """What config.json would say."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "intermediate_size": mlp,
        "vocab_size": vocab,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        **others,
    }


def _theta(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


_QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "rms_norm_eps": 1e-6, "tie_word_embeddings": True}
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": _llama(64, 2, 4, 2, 32, 128, 320, **_QWEN3, rope_parameters=_theta(1e4), max_position_embeddings=2048),
    "smollm2-135m": _llama(
        576, 30, 9, 3, 64, 1536, 49152, tie_word_embeddings=True, rope_parameters=_theta(1e5), max_position_embeddings=8192
    ),
    "qwen3-0.6b": _llama(1024, 28, 16, 8, 128, 3072, 151936, **_QWEN3, rope_parameters=_theta(1e6), max_position_embeddings=40960),
    "tinyllama-1.1b": _llama(2048, 22, 32, 4, 64, 5632, 32000, rope_parameters=_theta(1e4), max_position_embeddings=2048),
    "llama-8b": _llama(4096, 32, 32, 8, 128, 14336, 128256, rope_parameters=_theta(5e5), max_position_embeddings=8192),
}


def find_shape(name: str) -> Path:
    """"dummy:SHAPE" as the path by which the rest of minfer knows the model. No such folder exists.

    Raises:
        ModelError: no shape is called that.
    """
    if name.removeprefix(PREFIX) not in SHAPES:
        raise ModelError(f"model={name!r}: no shape is called {name.removeprefix(PREFIX)!r}; the shapes are {', '.join(SHAPES)}")
    return Path(name)


def is_dummy(name: str | Path) -> bool:
    """Whether a model's name or path means a shape."""
    return str(name).startswith(PREFIX)


def settings(path: Path) -> dict[str, Any] | None:
    """What config.json would say; None where the path means no shape."""
    return SHAPES.get(str(path).removeprefix(PREFIX)) if is_dummy(path) else None


def fill(places: Mapping[str, torch.Tensor]) -> None:
    """Random values for each tensor, where it lies. The same name and shape get the same values on the same kind of device.

    Matrices have a deviation of 1 / sqrt(columns), so that each product keeps the size of what goes in, in any dtype. Vectors, which
    are the weights of norms, lie around 1.
    """
    import torch

    for name, place in places.items():
        generator = torch.Generator(place.device).manual_seed(zlib.crc32(name.encode()))
        if place.ndim == 1:
            place.data.normal_(1.0, 0.1, generator=generator)
        else:
            place.data.normal_(0.0, place.shape[-1] ** -0.5, generator=generator)
