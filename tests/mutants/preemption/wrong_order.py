"""Fault: the blocks come back in the opposite order."""

from __future__ import annotations

from minfer.preemption.swap import Swap


class Mutant(Swap):
    def restore(self, seq, blocks):
        seq.host_blocks.reverse()
        return super().restore(seq, blocks)
