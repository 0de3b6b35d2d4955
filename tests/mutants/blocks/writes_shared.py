"""Fault: a block that another sequence reads is written without being copied first."""

from __future__ import annotations

from minfer.blocks.paged import PagedBlocks


class Mutant(PagedBlocks):
    def allocate(self, seq, num_tokens, keep=0):
        new = max(self._blocks_for(num_tokens) - len(seq.block_table), 0)
        if new and new + keep > self.num_free:
            return False
        seq.block_table.extend(self._pop() for _ in range(new))
        return True
