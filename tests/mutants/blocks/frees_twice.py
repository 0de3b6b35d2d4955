"""Fault: a sequence that is freed twice gives its blocks back twice."""

from __future__ import annotations

from minfer.blocks.contiguous import ContiguousBlocks


class Mutant(ContiguousBlocks):
    def __init__(self, num_blocks, block_size):
        super().__init__(num_blocks, block_size)
        self._tables = {}

    def allocate(self, seq, num_tokens, keep=0):
        done = super().allocate(seq, num_tokens, keep)
        self._tables[seq.seq_id] = list(seq.block_table)
        return done

    def free(self, seq):
        seq.block_table[:] = self._tables.get(seq.seq_id, [])
        super().free(seq)
