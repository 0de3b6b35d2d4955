# Chapter 14, Tensor parallelism. Edit this file: it is your ProcessesExecutor for the slot executor.
#
#   task1, 3 points: Whose K/V heads
#   task2, 4 points: Rows, columns, and a bias that counts once
#   task3, 3 points: Two sums a layer
#
#   minfer check ch14              what is right so far, and your points
#   minfer check ch14 -k task1     one task only
#   minfer hint ch14 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text c6e874d3.

"""Tensor parallelism from outside the model: which part of each weight a rank holds, and where the ranks' results are added up.

A rank holds some of the query heads with the K/V heads that they read, a part of the MLP's width, and a part of the head's
vocabulary. Its decoder is an ordinary one of that smaller shape: what it computes behind `o_proj` and `down_proj` is one addend of
the whole model's value there. The sum over the ranks is taken there and nowhere else.

    x (the same on every rank) → q|k|v of its heads → attention → its columns of o_proj → sum over the ranks → norm
                               → its part of gate|up → silu·mul → its columns of down_proj → sum over the ranks → next layer
    last norm → its rows of the head → its part of the logits, put together from all ranks → every rank samples the same token

From: `executor/rank.py` says which rank of how many. To: `weights.py` reads no more than the cuts; `executor/group.py` adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from minfer.executor.group import Group
from minfer.executor.parallel import ParallelExecutor
from minfer.executor.processes import ProcessTeam, devices_of
from minfer.model import Decoder
from minfer.model_config import ModelConfig
from minfer.shard import Cut


@dataclass(frozen=True)
class Shard:
    """What rank `rank` of `size` holds of a model; with one rank, all of it."""

    whole: ModelConfig
    rank: int = 0
    size: int = 1

    @cached_property
    def kv_heads(self) -> list[int]:
        """The whole model's K/V heads behind this rank's ones, in order. One may come twice, or live on several ranks.

        The rank's query heads are read in runs as long as possible that all share a K/V head: the greatest common divisor of the
        model's query heads per K/V head, and the rank's query heads. 8 K/V heads on 2 ranks: 4 each. 2 on 4: each on two ranks.
        3 with 6 query heads on 2: 0, 0, 1 and 1, 2, 2.
        """
        mine, shared = self.whole.num_heads // self.size, self.whole.num_heads // self.whole.num_kv_heads
        # ch14 task1: the K/V head behind the first query head of each run
        raise NotImplementedError("ch14 task1: the K/V head behind the first query head of each run")

    @cached_property
    def model(self) -> ModelConfig:
        """The shape of the rank's decoder. Its embeddings are whole, since a step looks up a few rows only."""
        whole = self.whole
        return replace(
            whole,
            num_heads=whole.num_heads // self.size,
            num_kv_heads=len(self.kv_heads),
            intermediate_size=-(-whole.intermediate_size // self.size),
        )

    @property
    def vocab(self) -> tuple[int, int]:
        """The rank's part of the head's vocabulary; the last ranks may have less of it."""
        return self._share(self.whole.vocab_size)

    def cut(self, name: str) -> Cut | None:
        """The rank's part of the checkpoint's tensor of that name; None: the whole tensor."""
        if self.size == 1:
            return None
        whole, D = self.whole, self.whole.head_dim
        heads = whole.num_heads * D
        # ch14 task2: which rows or columns of each tensor are the rank's; a bias that is added before a sum counts once
        raise NotImplementedError(
            "ch14 task2: which rows or columns of each tensor are the rank's; a bias that is added before a sum counts once"
        )

    def connect(self, decoder: Decoder, group: Group) -> None:
        """Add up over the ranks behind each `o_proj` and `down_proj`, and put the logits together behind the head.

        A module's forward hook may return what stands for its output.
        """
        width, size = -(-self.whole.vocab_size // self.size), self.whole.vocab_size
        # ch14 task3: hooks that add up behind o_proj and down_proj, and put the head's columns together, without the padding
        raise NotImplementedError(
            "ch14 task3: hooks that add up behind o_proj and down_proj, and put the head's columns together, without the padding"
        )

    def _share(self, length: int) -> tuple[int, int]:
        """This rank's range of a dimension that is dealt out in equal parts, as far as it reaches."""
        part = -(-length // self.size)
        return min(self.rank * part, length), min((self.rank + 1) * part, length)


class ProcessesExecutor(ParallelExecutor):
    """A process for each rank on this machine."""

    shard = Shard

    def __init__(self, config, stage, block_size: int):
        devices = devices_of(config)
        super().__init__(config, stage, block_size, ProcessTeam(len(devices)), devices)
