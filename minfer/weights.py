"""Checkpoint files → the decoder's weights, fused while they are read.

From: *.safetensors in a model's folder. To: a Decoder that is ready to run.
Besides the model, one tensor is in memory at a time; a rank of several reads its own part of it only.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from minfer import dummy
from minfer.errors import ModelError
from minfer.model import Decoder, Functions
from minfer.model_config import ModelConfig
from minfer.shard import Cut, Shard, cut_head

logger = logging.getLogger(__name__)

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def load_decoder(
    path: Path, config: ModelConfig | Shard, functions: Functions, dtype: torch.dtype, device: torch.device | str, max_len: int
) -> Decoder:
    """Build the decoder and fill it from the folder `path`, converting to `dtype` on the way; a shape of `dummy.py`, at random.

    Tolerated extras: rotary frequencies, and an lm_head beside tied embeddings (the embeddings are used, as config.json says).

    Args:
        config: the model, or what a rank holds of it.

    Raises:
        ModelError: too little memory; a file is missing or cannot be read; a tensor is missing, left over, quantised, or of
            another shape.
    """
    shard = Shard(config) if isinstance(config, ModelConfig) else config
    try:
        decoder = Decoder(shard.model, functions, dtype, device, max_len)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ModelError(
            f"too little memory on {device} for the weights of {path} in {dtype} ({reason}); "
            "take a smaller model, a dtype of fewer bytes, or more devices (tensor_parallel_size); or free memory that others hold"
        ) from error
    if shard.size > 1:
        cut_head(decoder, shard)
    waiting = destinations(decoder)
    if dummy.is_dummy(path):
        _fill(waiting, shard)
        decoder.pack()
        return decoder
    leftover, head = [], None
    for name, tensor in read_tensors(Path(path)):
        if name in waiting:
            _copy(name, tensor, waiting.pop(name), shard.cut(name))
        elif name == "lm_head.weight" and shard.whole.tie_word_embeddings:
            head = tensor[:]
        elif not name.endswith("rotary_emb.inv_freq"):
            leftover.append(name)
    if waiting:
        raise ModelError(
            f"{path} lacks tensors that its config.json asks for: {_some(waiting)}; "
            "the checkpoint is incomplete, or belongs to another config.json"
        )
    if leftover:
        raise ModelError(
            f"{path} has tensors that its config.json has no place for: {_some(leftover)}; "
            "ignoring them would give wrong text: check that config.json belongs to this checkpoint"
        )
    if head is not None and not _same(head, decoder.embed_tokens.weight):
        logger.warning("%s: lm_head.weight is not the embeddings, but config.json ties them: using the embeddings", path)
    decoder.pack()
    return decoder


def destinations(decoder: Decoder) -> dict[str, torch.Tensor]:
    """Where each tensor of a checkpoint goes: its name → a parameter of ours, or some rows of a fused one."""
    config, D = decoder.config, decoder.config.head_dim
    q, kv, up = config.num_heads * D, config.num_kv_heads * D, config.intermediate_size
    every = slice(None)
    places = {"model.embed_tokens.weight": decoder.embed_tokens.weight, "model.norm.weight": decoder.norm.weight}
    if not config.tie_word_embeddings:
        places["lm_head.weight"] = decoder.lm_head.weight
    for number, layer in enumerate(decoder.layers):
        attention, mlp = layer.self_attn, layer.mlp
        table = {  # the checkpoint's name: our module, and which of its rows
            "input_layernorm": (layer.input_layernorm, every),
            "self_attn.q_proj": (attention.qkv_proj, slice(0, q)),
            "self_attn.k_proj": (attention.qkv_proj, slice(q, q + kv)),
            "self_attn.v_proj": (attention.qkv_proj, slice(q + kv, q + 2 * kv)),
            "self_attn.o_proj": (attention.o_proj, every),
            "post_attention_layernorm": (layer.post_attention_layernorm, every),
            "mlp.gate_proj": (mlp.gate_up_proj, slice(0, up)),
            "mlp.up_proj": (mlp.gate_up_proj, slice(up, 2 * up)),
            "mlp.down_proj": (mlp.down_proj, every),
        }
        for name, (module, rows) in table.items():
            for kind, parameter in module.named_parameters():  # weight, and bias where the model has one
                places[f"model.layers.{number}.{name}.{kind}"] = parameter[rows]
        if config.qk_norm:
            places[f"model.layers.{number}.self_attn.q_norm.weight"] = attention.q_norm
            places[f"model.layers.{number}.self_attn.k_norm.weight"] = attention.k_norm
    return places


def read_tensors(path: Path) -> Iterator[tuple[str, Any]]:
    """Every tensor of the checkpoint with its name, as one of safetensors' slices: what is taken of it by index is read, on the CPU."""
    for file in checkpoint_files(path):
        if not file.is_file():
            raise ModelError(f"{file} is missing, but {INDEX} lists it; download the model again")
        try:
            with safe_open(file, framework="pt") as tensors:
                names = tensors.keys()
                for name in names:
                    yield name, tensors.get_slice(name)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} cannot be read ({error}); it may be cut short: download it again") from error


def checkpoint_files(path: Path) -> list[Path]:
    """The safetensors files of the folder: one, or the shards that its index lists.

    Raises:
        ModelError: there are none, or the index cannot be read.
    """
    if (path / SINGLE).is_file():
        return [path / SINGLE]
    index = path / INDEX
    if index.is_file():
        try:
            shards = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            return [path / shard for shard in sorted(set(shards))]
        except (ValueError, KeyError, AttributeError, TypeError, OSError) as error:
            raise ModelError(f"{index} cannot be read ({error!r}); it may be cut short: download it again") from error
    other = sorted(file.name for pattern in ("*.bin", "*.pt", "*.pth") for file in path.glob(pattern))
    if other:
        raise ModelError(
            f"{path} has its weights only as {_some(other)}, which can run code when opened; "
            "minfer reads safetensors: take such a version, or convert it with transformers' save_pretrained"
        )
    raise ModelError(f"{path} has no weights: neither {SINGLE} nor {INDEX} is there; download the model again")


def _copy(name: str, tensor: Any, place: torch.Tensor, cut: Cut | None) -> None:
    """One of safetensors' slices, or the cut of it, into its place."""
    shape, expected = list(tensor.get_shape()), _whole_shape(place, cut)
    if shape != expected:
        raise ModelError(
            f"tensor {name} has shape {shape}, but config.json asks for {expected}; "
            "config.json may belong to another model, or the checkpoint may be packed"
        )
    _put(place, (_checked(name, part) for part in _parts(tensor, cut)), cut)


def _checked(name: str, part: torch.Tensor) -> torch.Tensor:
    if part.dtype not in FLOATS:
        raise ModelError(f"tensor {name} is {part.dtype}: quantised weights are not supported; take the unquantised model")
    return part


def _put(place: torch.Tensor, parts: Iterable[torch.Tensor], cut: Cut | None) -> None:
    """The pieces into the place, one after the other, and zeros behind them."""
    dim, at = cut.dim if cut else 0, 0
    for part in parts:
        place.narrow(dim, at, part.shape[dim]).copy_(part)
        at += part.shape[dim]
    place.narrow(dim, at, place.shape[dim] - at).zero_()


def _fill(waiting: dict[str, torch.Tensor], shard: Shard) -> None:
    """Random weights of a shape. A rank makes one whole tensor after the other, so that its cuts are those of the whole model."""
    if shard.size == 1:
        dummy.fill(waiting)
        return
    for name, place in waiting.items():
        cut = shard.cut(name)
        whole = torch.empty(_whole_shape(place, cut), dtype=place.dtype, device=place.device)
        dummy.fill({name: whole})
        _put(place, _parts(whole, cut), cut)


def _whole_shape(place: torch.Tensor, cut: Cut | None) -> list[int]:
    """The shape of the checkpoint's tensor that this place takes its part of."""
    shape = list(place.shape)
    if cut is not None:
        shape[cut.dim] = cut.length
    return shape


def _parts(tensor: Any, cut: Cut | None) -> Iterator[torch.Tensor]:
    """The pieces to be put one after the other."""
    if cut is None:
        yield tensor[:]
    else:
        for start, stop in cut.ranges:
            yield tensor[start:stop] if cut.dim == 0 else tensor[:, start:stop]


def _same(tensor: torch.Tensor, weight: torch.Tensor) -> bool:
    return tensor.shape == weight.shape and torch.equal(tensor.to(weight), weight)


def _some(names: list[str] | dict[str, torch.Tensor]) -> str:
    names = sorted(names)
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
