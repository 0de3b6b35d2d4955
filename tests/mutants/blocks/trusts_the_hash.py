"""Fault: a block whose hash is the same is taken for the same block."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks


class Mutant(PrefixBlocks):
    def _hit(self, key, parent, tokens):
        return self._by_key.get(key)
