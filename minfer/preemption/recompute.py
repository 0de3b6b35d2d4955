"""Preemption by recompute: the sequence's K/V are dropped, and computed again when it is readmitted."""

from __future__ import annotations

from minfer.types import Copy, Sequence


class Recompute:
    """No state: all that a sequence needs to start over are its token ids."""

    def __init__(self, num_host_blocks: int = 0):
        pass

    def evict(self, seq: Sequence, blocks) -> list[Copy]:
        blocks.free(seq)
        seq.num_computed = 0
        return []

    def restore(self, seq: Sequence, blocks) -> list[Copy]:
        return []

    def drop(self, seq: Sequence) -> None:
        pass
