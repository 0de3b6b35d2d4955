"""Fault: host blocks are not given back when a sequence has been restored."""

from __future__ import annotations

from minfer.preemption.swap import Swap


class Mutant(Swap):
    def restore(self, seq, blocks):
        free = list(self._free)
        copies = super().restore(seq, blocks)
        self._free[:] = free
        return copies
