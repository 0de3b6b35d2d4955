"""Fault: a block is found by its own tokens and by how many come before it, whatever those are."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks


def depth(entry):
    return 0 if entry is None else 1 + depth(entry.parent)


class Mutant(PrefixBlocks):
    def _find(self, seq):
        entries = []
        for i in range((seq.num_tokens - 1) // self.block_size):
            tokens = self._tokens(seq, i)
            found = (entry for entry in self._by_key.values() if entry.tokens == tokens and depth(entry.parent) == i)
            entry = next(found, None)
            if entry is None:
                break
            entries.append(entry)
        return entries
