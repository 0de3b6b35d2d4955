"""Fault: requests with different salts share what they have computed."""

from __future__ import annotations

from dataclasses import replace

from minfer.blocks.prefix import PrefixBlocks


class Mutant(PrefixBlocks):
    def _find(self, seq):
        return self._unsalted(seq, super()._find)

    def commit(self, seq):
        self._unsalted(seq, super().commit)

    def _unsalted(self, seq, verb):
        request, seq.request = seq.request, replace(seq.request, cache_salt=0)
        try:
            return verb(seq)
        finally:
            seq.request = request
