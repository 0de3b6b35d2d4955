"""Fault: block 0 is handed out like any other."""

from __future__ import annotations

from minfer.blocks.paged import PagedBlocks


class Mutant(PagedBlocks):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._free[0] = self._free.pop(num_blocks - 1)
