"""Preemption by swapping: the sequence's K/V blocks move to host memory, and back when it is readmitted.

It costs two copies over the bus instead of computing the tokens again. Where the host pool is full, the sequence is recomputed.
"""

from __future__ import annotations

from minfer.preemption.recompute import Recompute
from minfer.types import Copy, Sequence


class Swap(Recompute):
    """Owns the ids 0 .. num_host_blocks - 1 of the executor's host pool."""

    def __init__(self, num_host_blocks: int):
        self.num_host_blocks = num_host_blocks
        self._free = list(range(num_host_blocks))

    def evict(self, seq: Sequence, blocks) -> list[Copy]:
        used = seq.block_table[: -(-seq.num_computed // blocks.block_size)]
        if len(used) > len(self._free):
            return super().evict(seq, blocks)
        seq.host_blocks = [self._free.pop() for _ in used]
        copies = [Copy("out", block, host) for block, host in zip(used, seq.host_blocks, strict=True)]
        blocks.free(seq)
        return copies

    def restore(self, seq: Sequence, blocks) -> list[Copy]:
        copies = [Copy("in", host, block) for host, block in zip(seq.host_blocks, seq.block_table, strict=False)]
        self.drop(seq)
        return copies

    def drop(self, seq: Sequence) -> None:
        self._free.extend(seq.host_blocks)
        seq.host_blocks = []
