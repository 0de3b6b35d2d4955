"""Fault: where there is not room for all, it takes what there is."""

from __future__ import annotations

from minfer.blocks.paged import PagedBlocks


class Mutant(PagedBlocks):
    def allocate(self, seq, num_tokens, keep=0):
        while self._blocks_for(num_tokens) > len(seq.block_table) + self.num_free - keep:
            if self.num_free <= keep:
                return False
            seq.block_table.append(self._pop())
        return super().allocate(seq, num_tokens, keep)
