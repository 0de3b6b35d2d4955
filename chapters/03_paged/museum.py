"""Bug museum, chapter 3: a blocks part with one fault of a kind that engines have had. Find it before you read on.

    minfer check blocks --part chapters/03_paged/museum.py:PagedBlocks
"""

from __future__ import annotations

from minfer.blocks import paged
from minfer.types import Copy, Sequence


class PagedBlocks(paged.PagedBlocks):
    """Everything but `allocate` is minfer's own, and right."""

    def allocate(self, seq: Sequence, num_tokens: int, keep: int = 0) -> bool:
        """Room for num_tokens; the block that the first new token falls into is copied if another sequence reads it too."""
        table = seq.block_table
        first = seq.num_computed // self.block_size
        shared = first < len(table) and self.refs[table[first]] > 1
        new = max(-(-num_tokens // self.block_size) - len(table), 0)
        if new + shared and new + shared + keep > len(self._free):
            return False
        table.extend(self._pop() for _ in range(new))
        if shared:
            copy = self._pop()
            self.copies.append(Copy("copy", table[first], copy))
            table[first] = copy
        return True
