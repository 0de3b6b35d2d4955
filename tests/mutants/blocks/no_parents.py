"""Fault: a block's key is the hash of its own tokens: what comes before them is not compared."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks


class Mutant(PrefixBlocks):
    def _find(self, seq):
        entries = []
        for i in range((seq.num_tokens - 1) // self.block_size):
            tokens = self._tokens(seq, i)
            entry = next((each for each in self._by_key.values() if each.tokens == tokens), None)
            if entry is None:
                break
            entries.append(entry)
        return entries
