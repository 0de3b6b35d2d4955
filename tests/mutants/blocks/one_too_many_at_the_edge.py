"""Fault: a sequence whose tokens fill its blocks exactly gets a block more."""

from __future__ import annotations

from minfer.blocks.paged import PagedBlocks


class Mutant(PagedBlocks):
    def _blocks_for(self, num_tokens):
        return num_tokens // self.block_size + 1
