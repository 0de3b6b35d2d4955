"""Fault: where the host pool is full, the tokens count as computed although their K/V are gone."""

from __future__ import annotations

from minfer.preemption.swap import Swap


class Mutant(Swap):
    def evict(self, seq, blocks):
        computed = seq.num_computed
        copies = super().evict(seq, blocks)
        seq.num_computed = computed
        return copies
