# Chapter 3, Pages. Edit this file: it is your PagedBlocks for the slot blocks.
#
#   task1, 4 points: Room for more tokens
#   task2, 3 points: Giving back
#   task3, 3 points: Sharing, and the copy before the write
#
#   minfer check ch03              what is right so far, and your points
#   minfer check ch03 -k task1     one task only
#   minfer hint ch03 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text c0fee576.

"""Paged KV cache: a sequence holds as many small blocks as its tokens fill, from anywhere in the pool.

Blocks are counted: the completions of one request share their prompt's blocks, and a shared block is copied before it is
written. Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from minfer.types import Copy, Sequence


class PagedBlocks:
    """Block 0 pads and is never handed out; blocks 1 .. num_blocks - 1 are.

    Invariants: a block is free, or is in refs[block] block tables; with no sequence alive every block is free.
    """

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.num_total = num_blocks - 1
        self.copies: list[Copy] = []
        self.refs = [0] * num_blocks
        self._free = OrderedDict.fromkeys(range(1, num_blocks))  # taken from the front

    @staticmethod
    def size_of_block(config) -> int:
        return config.block_size

    @property
    def num_free(self) -> int:
        return len(self._free)

    def lookup(self, seq: Sequence) -> int:
        return 0

    def match(self, seq: Sequence) -> int:
        """A later completion of a request takes the prompt blocks that the first one has computed.

        The last prompt token is always computed again: its logits are what the completion samples from. A parent that was
        preempted may be computing its prompt in this very step, so it is not copied from.
        """
        parent = seq.parent
        if parent is None or seq.num_output or not parent.block_table or not parent.num_output or parent.num_preemptions:
            return 0
        # ch03 task3: take the prompt blocks of the parent; how many tokens need no computing?
        raise NotImplementedError("ch03 task3: take the prompt blocks of the parent; how many tokens need no computing?")

    def allocate(self, seq: Sequence, num_tokens: int, keep: int = 0) -> bool:
        """
             block_table  | full | full | first written | ...new |
                          0           num_computed          num_tokens

        The block that the first new token falls into is copied if another sequence reads it too.
        """
        table, block_size = seq.block_table, self.block_size
        first = seq.num_computed // block_size
        shared = first < len(table) and self.refs[table[first]] > 1
        if not shared and num_tokens <= len(table) * block_size:
            return True
        # ch03 task1: take what is missing if `keep` blocks then stay free, a copy of a shared block included; else nothing
        raise NotImplementedError(
            "ch03 task1: take what is missing if `keep` blocks then stay free, a copy of a shared block included; else nothing"
        )
        if shared:
            # ch03 task3: a copy takes the place of the shared block
            raise NotImplementedError("ch03 task3: a copy takes the place of the shared block")
        return True

    def commit(self, seq: Sequence) -> None:
        pass

    def free(self, seq: Sequence) -> None:
        # ch03 task2: give back every block of the table, once
        raise NotImplementedError("ch03 task2: give back every block of the table, once")

    def _blocks_for(self, num_tokens: int) -> int:
        # ch03 task1: round up
        raise NotImplementedError("ch03 task1: round up")

    def _pop(self) -> int:
        # ch03 task1: a block from the front of the free ones; it has one reader now
        raise NotImplementedError("ch03 task1: a block from the front of the free ones; it has one reader now")

    def _take(self, seq: Sequence, blocks: Iterable[int]) -> None:
        for block in blocks:
            # ch03 task3: one reader more; a block that was free is so no longer
            raise NotImplementedError("ch03 task3: one reader more; a block that was free is so no longer")

    def _release(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            # ch03 task2: one reader less; a block that nobody reads is free
            raise NotImplementedError("ch03 task2: one reader less; a block that nobody reads is free")

    def _put_back(self, block: int) -> None:
        """To the front: the block freed last is used first, so memory never touched stays untouched."""
        # ch03 task2: back to the front
        raise NotImplementedError("ch03 task2: back to the front")
