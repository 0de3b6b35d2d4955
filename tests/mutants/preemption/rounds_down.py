"""Fault: a last block that is not full is not copied out."""

from __future__ import annotations

from minfer.preemption.swap import Swap


class Mutant(Swap):
    def evict(self, seq, blocks):
        copies = super().evict(seq, blocks)
        if copies and seq.num_computed % blocks.block_size:
            copies.pop()
            self._free.append(seq.host_blocks.pop())
        return copies
