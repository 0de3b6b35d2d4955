"""Fault: where room is scarce, the sequence that came first gives way."""

from __future__ import annotations

from minfer.scheduler.chunked import ChunkedScheduler


class Mutant(ChunkedScheduler):
    def _make_room(self, seq, num_new):
        while not self.blocks.allocate(seq, seq.num_computed + num_new):
            victim = self.running[0] if len(self.running) > 1 else seq
            self._preempt(victim)
            if victim is seq:
                return False
        return True
