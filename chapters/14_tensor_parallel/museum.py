"""Bug museum, chapter 14: cuts with one fault of a kind that engines have had. Find it before you read on.

    minfer check ch14 museum.py
"""

from __future__ import annotations

from functools import cached_property

from minfer import shard
from minfer.executor import processes


class Shard(shard.Shard):
    """What rank `rank` of `size` holds of a model."""

    @cached_property
    def kv_heads(self) -> list[int]:
        """With enough K/V heads for all, each rank has its part of them; with fewer, each has one, and some have the same one."""
        heads = self.whole.num_kv_heads
        if heads >= self.size:
            mine = heads // self.size
            return list(range(self.rank * mine, (self.rank + 1) * mine))
        return [self.rank % heads]


class ProcessesExecutor(processes.ProcessesExecutor):
    """A process for each rank on this machine."""

    shard = Shard
