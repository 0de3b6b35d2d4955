"""Fault: a block is shared as soon as its first token is computed."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks


class Mutant(PrefixBlocks):
    def commit(self, seq):
        computed = seq.num_computed
        seq.num_computed = min(len(seq.block_table), self._blocks_for(computed)) * self.block_size
        super().commit(seq)
        seq.num_computed = computed
