"""Prefix caching: a full block that any sequence has computed is found again by every sequence that starts with the same tokens.

Full blocks form a tree. A block's key is the hash of its parent's key and its own tokens; on a hit the parent and the tokens are
compared as well, so a colliding hash is a miss and never another prompt's K/V. A freed block stays in the tree until its memory
is needed: the one that has been free for longest goes first, and the end of a sequence before its beginning.
"""

from __future__ import annotations

from collections.abc import KeysView
from typing import NamedTuple

from minfer.blocks.paged import PagedBlocks
from minfer.types import Sequence


class Cached(NamedTuple):
    """A full block in the tree."""

    key: int
    parent: Cached | None  # the very entry, not its key
    tokens: tuple[int, ...]
    block: int


def chain(parent_key: int, tokens: tuple[int, ...]) -> int:
    """Hash of a block: everything before it, by its parent's key, and its own tokens."""
    return hash((parent_key, tokens))


class PrefixBlocks(PagedBlocks):
    """PagedBlocks that remember what full blocks hold."""

    def __init__(self, num_blocks: int, block_size: int):
        super().__init__(num_blocks, block_size)
        self._by_key: dict[int, Cached] = {}
        self._by_block: dict[int, Cached] = {}
        self._chains: dict[int, list[Cached]] = {}  # by seq_id: the entries of its first blocks
        self.changed: set[int] | None = None  # a recording's: blocks that entered the tree or left it; None while there is none

    @property
    def cached(self) -> KeysView[int]:
        """The blocks in the tree, free ones too."""
        return self._by_block.keys()

    def lookup(self, seq: Sequence) -> int:
        return len(self._find(seq)) * self.block_size

    def match(self, seq: Sequence) -> int:
        forked = super().match(seq)
        if forked:
            return forked
        entries = self._find(seq)
        self._take(seq, (entry.block for entry in entries))
        self._chains[seq.seq_id] = entries
        return len(entries) * self.block_size

    def commit(self, seq: Sequence) -> None:
        """Enter the blocks that are full, computed and known."""
        entries = self._chains.setdefault(seq.seq_id, [])
        known = len(entries)
        num_full = min(seq.num_computed, seq.num_tokens) // self.block_size
        for i in range(known, min(num_full, len(seq.block_table))):
            # ch09 task1: enter block i under its key, unless the tree has such a block already
            parent = entries[-1] if entries else None
            tokens = self._tokens(seq, i)
            key = chain(parent.key if parent else seq.request.cache_salt, tokens)
            entry = self._hit(key, parent, tokens)
            if entry is None:
                entry = Cached(key, parent, tokens, seq.block_table[i])
                self._forget(self._by_key.get(key))  # a colliding hash, or an entry whose parent was dropped
                self._by_key[key] = self._by_block[entry.block] = entry
            entries.append(entry)
            # end of ch09 task1
        if self.changed is not None:
            self.changed.update(entry.block for entry in entries[known:])

    def free(self, seq: Sequence) -> None:
        super().free(seq)
        self._chains.pop(seq.seq_id, None)

    def _find(self, seq: Sequence) -> list[Cached]:
        """Entries of its first blocks, as far as they are in the tree. At least the last token is left to compute."""
        if seq.index == 0 and seq.sampling.params.prompt_logprobs is not None:
            return []  # every prompt token's logits are wanted
        entries: list[Cached] = []
        # ch09 task1: follow the chain from the first block on, as far as the tree goes
        for i in range((seq.num_tokens - 1) // self.block_size):
            parent = entries[-1] if entries else None
            tokens = self._tokens(seq, i)
            entry = self._hit(chain(parent.key if parent else seq.request.cache_salt, tokens), parent, tokens)
            if entry is None:
                break
            entries.append(entry)
        # end of ch09 task1
        return entries

    def _hit(self, key: int, parent: Cached | None, tokens: tuple[int, ...]) -> Cached | None:
        """The entry of that key, if it is this block: the key is a hash, and two blocks may have the same."""
        # ch09 task1: look under the key, and make sure
        entry = self._by_key.get(key)
        if entry is not None and entry.parent is parent and entry.tokens == tokens:
            return entry
        return None
        # end of ch09 task1

    def _tokens(self, seq: Sequence, i: int) -> tuple[int, ...]:
        return tuple(seq.token_ids[i * self.block_size : (i + 1) * self.block_size])

    def _pop(self) -> int:
        block = super()._pop()
        self._forget(self._by_block.get(block))
        return block

    def _put_back(self, block: int) -> None:
        """Nobody holds it any more: from now on it may be used again, in its turn."""
        super()._put_back(block)
        if block in self._by_block:
            # ch09 task2: it can still be found; when should its turn be?
            self._free.move_to_end(block)  # to the back: when all that were freed before it have been used
            # end of ch09 task2

    def _forget(self, entry: Cached | None) -> None:
        if entry is not None:
            if self.changed is not None:
                self.changed.add(entry.block)
            # ch09 task3: from now on nobody may find it
            del self._by_key[entry.key], self._by_block[entry.block]
            # end of ch09 task3
