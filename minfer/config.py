"""EngineConfig: every choice that an engine is built with, checked once, never changed after.

From: `LLM(...)` or the command line. To: the executor (sizes, device, dtype) and the scheduler (limits).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path

import torch

from minfer.errors import MinferError
from minfer.model_config import ModelConfig
from minfer.shard import check_size

MOST_SEQS = 2**16
MOST_BATCHED_TOKENS = 2**24
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class EngineConfig:
    """Sizes are in tokens unless the name says otherwise."""

    path: Path  # folder of the checkpoint
    model: ModelConfig
    device: torch.device
    dtype: torch.dtype
    max_model_len: int  # longest prompt + output of one sequence
    max_num_seqs: int = 256  # sequences running at once
    max_num_batched_tokens: int = 2048  # new tokens computed in one step
    block_size: int = 16  # tokens in a K/V block, where the blocks are paged
    num_kv_blocks: int | None = None  # blocks for K/V besides the padding block; None: as memory_share allows
    memory_share: float = 0.9  # of the device's memory (of the free memory on a CPU, at most), weights included
    num_host_blocks: int = 0  # blocks in host memory that preemption.swap may use
    graph_sizes: tuple[int, ...] | None = None  # rows of the decode steps that runner.cuda_graph records; None: its own choice
    record_random: bool = False  # record random decode steps at start-up too, not only greedy ones; otherwise when one is first met
    seed: int | None = 0  # of requests that bring none; None: another one every time
    tensor_parallel_size: int = 1  # ranks that hold the model together, each on a device of its own
    ray_address: str | None = None  # executor.ray: the cluster to join; None: the one that the environment names, or one made here

    def __post_init__(self) -> None:
        sizes = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "tensor_parallel_size")
        for name in (*sizes, "num_kv_blocks", "num_host_blocks", "seed"):
            value = getattr(self, name)
            if (isinstance(value, bool) or not isinstance(value, int)) and not (value is None and name in ("num_kv_blocks", "seed")):
                raise MinferError(f"{name}={value!r} must be a whole number")
        for name, most in (("max_num_seqs", MOST_SEQS), ("max_num_batched_tokens", MOST_BATCHED_TOKENS)):
            if getattr(self, name) > most:
                raise MinferError(f"{name}={getattr(self, name)} is more than the {most} that the bookkeeping is made for")
        for name in sizes:
            if getattr(self, name) < 1:
                raise MinferError(f"{name}={getattr(self, name)} must be at least 1")
        check_size(self.model, self.tensor_parallel_size)
        if self.max_model_len > self.model.max_context:
            raise MinferError(
                f"max_model_len={self.max_model_len} is more than the {self.model.max_context} positions that the model was made for; "
                "lower it, or leave it out"
            )
        if self.num_kv_blocks is not None and self.num_kv_blocks < 1:
            raise MinferError(f"num_kv_blocks={self.num_kv_blocks} must be at least 1; leave it out to size it by memory_share")
        if isinstance(self.memory_share, bool) or not isinstance(self.memory_share, Real) or not 0 < self.memory_share <= 1:
            raise MinferError(f"memory_share={self.memory_share!r} must be above 0 and at most 1: it is a share of the device's memory")
        if self.num_host_blocks < 0:
            raise MinferError(f"num_host_blocks={self.num_host_blocks} must not be negative")
        if self.graph_sizes is not None and not (isinstance(self.graph_sizes, tuple | list) and all(map(_is_size, self.graph_sizes))):
            raise MinferError(
                f"graph_sizes={self.graph_sizes!r} must be numbers of rows, at least 1; leave it out for the runner's choice"
            )
        if not isinstance(self.record_random, bool):
            raise MinferError(f"record_random={self.record_random!r} must be True or False")
        if self.ray_address is not None and not isinstance(self.ray_address, str):
            raise MinferError(f"ray_address={self.ray_address!r} must be a string, such as '10.0.0.1:6379' or 'auto'")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def make_config(
    path: Path,
    /,
    *,
    dtype: str | torch.dtype = "auto",
    device: str | torch.device = "auto",
    max_model_len: int | None = None,
    max_num_batched_tokens: int | None = None,
    memory_share: float | None = None,
    **options,
) -> EngineConfig:
    """Fill in what was left open. `options` are EngineConfig's other fields.

    dtype "auto": float32 on a CPU, bfloat16 on a GPU. device "auto": CUDA where there is one. max_model_len: all that the model was
    made for. max_num_batched_tokens: 512 on a CPU, 16384 on a GPU. memory_share: 0.2 on a CPU, 0.9 on a GPU.

    Raises:
        MinferError: an unknown dtype or device, or a limit that contradicts another.
    """
    known = {field.name for field in fields(EngineConfig)} - {"path", "model"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise MinferError(f"no option is called {', '.join(unknown)}; the options are {', '.join(sorted(known))}")
    model = ModelConfig.load(path)
    device = _device(device)
    on_gpu = device.type == "cuda"
    return EngineConfig(
        path=path,
        model=model,
        device=device,
        dtype=_dtype(dtype, on_gpu),
        max_model_len=max_model_len if max_model_len is not None else model.max_context,
        max_num_batched_tokens=max_num_batched_tokens if max_num_batched_tokens is not None else (16384 if on_gpu else 512),
        memory_share=memory_share if memory_share is not None else (0.9 if on_gpu else 0.2),
        **options,
    )


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(device)
    except (RuntimeError, TypeError):
        raise MinferError(f"device={device!r} is not a device; use 'cpu', 'cuda' or 'auto'") from None
    if device.type not in ("cpu", "cuda"):
        raise MinferError(f"device={str(device)!r} is not supported; use 'cpu', 'cuda' or 'auto'")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise MinferError(f"device={str(device)!r} was asked for, and PyTorch finds no CUDA device; use 'cpu' or 'auto'")
    return device


def _dtype(dtype: str | torch.dtype, on_gpu: bool) -> torch.dtype:
    if dtype == "auto":
        return torch.bfloat16 if on_gpu else torch.float32
    if isinstance(dtype, str):
        dtype = DTYPES.get(dtype, dtype)
    if dtype not in DTYPES.values():
        raise MinferError(f"dtype={dtype!r} is not supported; use {', '.join(DTYPES)} or auto")
    return dtype
