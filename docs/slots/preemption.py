"""A preemption that recomputes, and remembers who had to give way."""

from minfer.preemption.recompute import Recompute


class Noted(Recompute):
    def __init__(self, num_host_blocks: int = 0):
        super().__init__(num_host_blocks)
        self.evicted: list[int] = []

    def evict(self, seq, blocks):
        self.evicted.append(seq.seq_id)
        return super().evict(seq, blocks)
