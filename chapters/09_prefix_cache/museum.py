"""The bug museum of chapter 9: a prefix cache that is as fast as ours, and now and then continues somebody else's text.

Use it like your own part: minfer check blocks --part chapters/09_prefix_cache/museum.py:PrefixBlocks
"""

from __future__ import annotations

from typing import NamedTuple

from minfer.blocks.paged import PagedBlocks
from minfer.types import Sequence


class Cached(NamedTuple):
    """A full block that can be found."""

    key: int
    tokens: tuple[int, ...]
    block: int


class PrefixBlocks(PagedBlocks):
    """PagedBlocks that remember what full blocks hold."""

    def __init__(self, num_blocks: int, block_size: int):
        super().__init__(num_blocks, block_size)
        self._by_key: dict[int, Cached] = {}
        self._by_block: dict[int, Cached] = {}

    def lookup(self, seq: Sequence) -> int:
        return len(self._find(seq)) * self.block_size

    def match(self, seq: Sequence) -> int:
        forked = super().match(seq)
        if forked:
            return forked
        entries = self._find(seq)
        self._take(seq, (entry.block for entry in entries))
        return len(entries) * self.block_size

    def commit(self, seq: Sequence) -> None:
        """Enter the blocks that are full, computed and known."""
        num_full = min(seq.num_computed, seq.num_tokens) // self.block_size
        for i in range(min(num_full, len(seq.block_table))):
            block, tokens = seq.block_table[i], self._tokens(seq, i)
            key = hash((seq.request.cache_salt, tokens))
            if key not in self._by_key and block not in self._by_block:
                self._by_key[key] = self._by_block[block] = Cached(key, tokens, block)

    def _find(self, seq: Sequence) -> list[Cached]:
        """Entries of its first blocks, as far as they are known. At least the last token is left to compute."""
        if seq.index == 0 and seq.sampling.params.prompt_logprobs is not None:
            return []
        entries: list[Cached] = []
        for i in range((seq.num_tokens - 1) // self.block_size):
            tokens = self._tokens(seq, i)
            entry = self._by_key.get(hash((seq.request.cache_salt, tokens)))
            if entry is None or entry.tokens != tokens:
                break
            entries.append(entry)
        return entries

    def _tokens(self, seq: Sequence, i: int) -> tuple[int, ...]:
        return tuple(seq.token_ids[i * self.block_size : (i + 1) * self.block_size])

    def _pop(self) -> int:
        block = super()._pop()
        entry = self._by_block.pop(block, None)
        if entry is not None:
            del self._by_key[entry.key]
        return block

    def _put_back(self, block: int) -> None:
        super()._put_back(block)
        if block in self._by_block:
            self._free.move_to_end(block)
