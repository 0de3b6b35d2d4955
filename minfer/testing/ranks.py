"""Ranks that are threads of one process: what they compute together, without processes and their seconds of starting.

From: a checkpoint, and the `Shard` of an executor part. To: every rank's logits, for tests of the cuts.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import pad

from minfer.errors import MinferError
from minfer.model_config import ModelConfig
from minfer.testing.decoding import TORCH_FUNCTIONS, compute_logits
from minfer.weights import load_decoder

PATIENCE = 2.0  # seconds that a rank waits for the others


class Alone(MinferError):
    """A rank waits at a sum that another one does not come to."""


class Meeting:
    """Where the ranks leave what the others take."""

    def __init__(self, size: int):
        self.values: list[torch.Tensor | None] = [None] * size
        self.barrier = threading.Barrier(size)

    def exchange(self, rank: int, x: torch.Tensor) -> list[torch.Tensor]:
        """What every rank brings, in their order."""
        try:
            self.values[rank] = x.clone()
            self.barrier.wait(PATIENCE)
            values = list(self.values)
            self.barrier.wait(PATIENCE)
        except threading.BrokenBarrierError:
            raise Alone(f"rank {rank} waits for the others at a tensor {list(x.shape)}, and they are not there") from None
        return values


class ThreadGroup:
    """What `executor/group.py` is to processes."""

    def __init__(self, rank: int, size: int, meeting: Meeting):
        self.rank, self.size, self.meeting = rank, size, meeting

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(self.meeting.exchange(self.rank, x)).sum(0)

    def gather(self, x: torch.Tensor, width: int) -> torch.Tensor:
        return torch.cat([pad(each, (0, width - each.shape[1])) for each in self.meeting.exchange(self.rank, x)], 1)


def logits_of_ranks(
    shard: Any, path: Path, size: int, prompts: list[list[int]], chunks: list[list[int]]
) -> list[list[torch.Tensor]]:
    """Each rank's logits [length, V] of every prompt. shard: the class; chunks: as `decoding.compute_logits` takes them."""
    meeting, config, decoders = Meeting(size), ModelConfig.load(path), []
    for rank in range(size):
        held = shard(config, rank, size)
        decoder = load_decoder(path, held, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
        held.connect(decoder, ThreadGroup(rank, size, meeting))
        decoders.append(decoder)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda decoder: compute_logits(decoder, prompts, chunks), decoders))
