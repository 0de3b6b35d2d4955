"""The naive KV cache: one huge block for each sequence, reserved in full when it is admitted.

Contiguous is paging with one page: the block is as long as the longest sequence allowed, so the tensors and the attention that
read them are the same as for small pages. What differs is the waste: a sequence of 50 tokens holds the places of max_model_len.
"""

from __future__ import annotations

from minfer.types import Copy, Sequence


class ContiguousBlocks:
    """Block 0 pads; blocks 1 .. num_blocks - 1 each hold one sequence."""

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.num_total = num_blocks - 1
        self.copies: list[Copy] = []  # nothing is shared, so nothing is ever copied
        self._free = list(range(num_blocks - 1, 0, -1))

    @staticmethod
    def size_of_block(config) -> int:
        return config.max_model_len

    @property
    def num_free(self) -> int:
        return len(self._free)

    def lookup(self, seq: Sequence) -> int:
        return 0

    def match(self, seq: Sequence) -> int:
        return 0

    def allocate(self, seq: Sequence, num_tokens: int, keep: int = 0) -> bool:
        """One block, once. Nothing is kept free: no sequence that runs will ever need a second one."""
        if seq.block_table:
            return True
        if not self._free:
            return False
        seq.block_table.append(self._free.pop())
        return True

    def commit(self, seq: Sequence) -> None:
        pass

    def free(self, seq: Sequence) -> None:
        self._free.extend(seq.block_table)
        seq.block_table.clear()
