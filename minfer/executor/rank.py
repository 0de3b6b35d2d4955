"""One rank of several: its part of the model behind the calls that it gets from the caller's process.

Every rank gets the same calls in the same order, and runs the same plans: nothing else crosses processes. Rank 0 is asked for what was
sampled; the others sample the same for themselves.

From: `worker.py` or a Ray actor hands over the calls. To: rank 0's results go back to `parallel.py`.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from minfer.config import EngineConfig
from minfer.executor.group import Group
from minfer.executor.local import LocalExecutor
from minfer.executor.memory import num_blocks
from minfer.executor.shorthand import Reader, Short
from minfer.model import Decoder, Functions
from minfer.resolve import resolve
from minfer.shard import Shard
from minfer.stages import Stage
from minfer.types import Sampled
from minfer.weights import load_decoder


class Job(NamedTuple):
    """What every rank is built from."""

    config: EngineConfig
    stage: Stage
    block_size: int
    address: tuple[str, int]  # of the store that rank 0 has opened
    devices: list[torch.device]  # one a rank
    threads: int  # of PyTorch, in each rank
    log_level: int


class Sizes(NamedTuple):
    """What a rank tells of itself."""

    num_blocks: int
    num_host_blocks: int
    kv_bytes_per_token: int


class RankExecutor(LocalExecutor):
    """LocalExecutor with one rank's part of the model, and as many blocks as every rank has room for."""

    def __init__(self, config: EngineConfig, stage: Stage, block_size: int, group: Group, shard: Shard):
        self.group, self.shard = group, shard
        super().__init__(replace(config, model=self.shard.model, tensor_parallel_size=1), stage, block_size)

    def _load(self, config: EngineConfig, functions: Functions) -> Decoder:
        decoder = load_decoder(config.path, self.shard, functions, config.dtype, config.device, config.max_model_len)
        self.shard.connect(decoder, self.group)
        return decoder

    def _num_blocks(self, config: EngineConfig, block_size: int) -> int:
        return self.group.least(num_blocks(config, block_size))


class Rank:
    """The calls. They come one at a time."""

    def __init__(self, rank: int, size: int, host: str):
        self.rank, self.size, self.host = rank, size, host
        self.store: dist.Store | None = None
        self.executor: RankExecutor | None = None
        self.pending: dict[int, Any] = {}
        self.plans = Reader()

    def open_store(self) -> tuple[str, int]:
        """Rank 0: let the others find it, at a port that is free now → its address."""
        self.store = dist.TCPStore(self.host, 0, is_master=True, wait_for_workers=False)
        return self.host, self.store.port

    def build(self, job: Job) -> Sizes:
        """Join the others, load, and record what the stage records.

        Raises:
            ModelError, PartError, MinferError: as with one device.
        """
        device = job.devices[self.rank]
        logging.basicConfig(level=job.log_level if self.rank == 0 else logging.ERROR, format=f"rank {self.rank}: %(message)s")
        torch.set_num_threads(job.threads)
        if device.type == "cuda":
            torch.cuda.set_device(device)
        store = self.store or dist.TCPStore(*job.address, is_master=False)
        group = Group(dist.PrefixStore("minfer", store), self.rank, self.size, device)
        shard = resolve("executor", job.stage.executor).shard(job.config.model, self.rank, self.size)
        self.executor = RankExecutor(replace(job.config, device=device), job.stage, job.block_size, group, shard)
        gc.collect()
        gc.freeze()
        executor = self.executor
        return Sizes(executor.num_blocks, executor.num_host_blocks, executor.kv_bytes_per_token)

    def launch(self, number: int, plan: Short) -> None:
        """Start step `number`."""
        self.pending[number] = self.executor.launch(self.plans.read(plan))
        for old in [each for each in self.pending if each < number - 1]:  # rank 0's that nobody waited for, and all of the others'
            del self.pending[old]

    def wait(self, number: int) -> Sampled:
        """What step `number` has sampled."""
        return self.pending.pop(number).wait()

    def ask(self, function: Callable, *arguments: Any) -> Any:
        """What a function says of this rank's executor: for benchmarks and tests. It must be one that pickle finds by its name."""
        return function(self.executor, *arguments)
