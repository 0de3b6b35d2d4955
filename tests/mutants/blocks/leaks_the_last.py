"""Fault: a block that is not full is not given back."""

from __future__ import annotations

from minfer.blocks.paged import PagedBlocks


class Mutant(PagedBlocks):
    def free(self, seq):
        if seq.num_computed % self.block_size:
            seq.block_table[-1:] = []
        super().free(seq)
