"""Fault: a prompt that is cached whole leaves no token to compute."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks


class Mutant(PrefixBlocks):
    def _find(self, seq):
        seq.token_ids.append(-1)
        i = (seq.num_tokens - 1) // self.block_size
        found = super()._find(seq)
        seq.token_ids.pop()
        return found[:i]
