"""Preemption: whatever was computed is there again when the sequence runs again, or is computed again; host memory adds up."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from slot_fixtures import PrefixCache, make_seq
from slot_suites import suite_test

from minfer.blocks.paged import PagedBlocks
from minfer.blocks.prefix import PrefixBlocks
from minfer.preemption.recompute import Recompute
from minfer.preemption.swap import Swap
from minfer.types import Copy

SIZE = 3


test_every_part_has_the_properties = suite_test("preemption")


class Moving(RuleBasedStateMachine):
    """Sequences run, give way, come back and end at random, over a cache and a host pool that hold numbers."""

    @initialize(num_host=st.integers(0, 8), part=st.sampled_from([PagedBlocks, PrefixBlocks]), kind=st.sampled_from([Swap, Recompute]))
    def build(self, num_host, part, kind):
        self.blocks = part(1 + 10, SIZE)
        self.cache = PrefixCache(1 + 10, num_host, SIZE)
        self.preemption = kind(num_host)
        self.num_host = num_host
        self.running, self.away = [], []

    @rule(tokens=st.lists(st.integers(0, 1), min_size=1, max_size=10), computed=st.integers(1, 10))
    def start(self, tokens, computed):
        """All or only a first chunk of it is computed before something else happens."""
        seq = make_seq(tokens)
        seq.num_computed = self.blocks.match(seq)
        if self.blocks.allocate(seq, len(tokens)):
            self.cache.compute(seq, min(computed, len(tokens) - seq.num_computed))
            self.blocks.commit(seq)
            self.running.append(seq)
        else:
            self.blocks.free(seq)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def give_way(self, data):
        seq = data.draw(st.sampled_from(self.running))
        before, free = seq.num_computed, self.num_host - sum(len(other.host_blocks) for other in self.away)
        copies = self.preemption.evict(seq, self.blocks)
        self.cache.copy(copies)
        fits = isinstance(self.preemption, Swap) and -(-before // SIZE) <= free
        assert seq.num_computed == (before if fits else 0), "swapped where there is room, else to be computed again"
        assert not seq.block_table
        self.running.remove(seq)
        self.away.append(seq)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data):
        seq = data.draw(st.sampled_from(self.away))
        if self.blocks.allocate(seq, seq.num_tokens):
            self.cache.copy(self.preemption.restore(seq, self.blocks))
            self.blocks.commit(seq)
            self.away.remove(seq)
            self.running.append(seq)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def end_while_away(self, data):
        seq = data.draw(st.sampled_from(self.away))
        self.preemption.drop(seq)
        self.preemption.drop(seq)  # dropping twice changes nothing
        self.away.remove(seq)

    @invariant()
    def nothing_is_lost(self):
        for seq in getattr(self, "running", ()):
            self.cache.check(seq)
            assert not seq.host_blocks
        if isinstance(getattr(self, "preemption", None), Swap):
            held = [block for seq in self.away for block in seq.host_blocks]
            assert sorted([*held, *self.preemption._free]) == list(range(self.num_host)), "host blocks do not add up"


Moving.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestMoving = Moving.TestCase


@pytest.mark.parametrize("computed", [1, 2, 3, 4, 6, 7])
def test_only_blocks_that_hold_something_move(computed):
    """One below, at and above a block's edge: ceil(computed / block_size) of them, in order, out and back in."""
    blocks, swap = PagedBlocks(20, SIZE), Swap(10)
    seq = make_seq([1] * 9)
    assert blocks.allocate(seq, 9)
    table, seq.num_computed = list(seq.block_table), computed
    out = swap.evict(seq, blocks)
    host = list(seq.host_blocks)
    assert out == [Copy("out", block, place) for block, place in zip(table, host, strict=False)]
    assert len(out) == -(-computed // SIZE)
    assert blocks.allocate(seq, 9)
    assert swap.restore(seq, blocks) == [Copy("in", place, block) for place, block in zip(host, seq.block_table, strict=False)]
    assert sorted(swap._free) == list(range(10))


def test_a_full_host_pool_falls_back_to_computing_again():
    """The second sequence does not fit beside the first: its K/V are dropped, and the first one's stay."""
    blocks, swap = PagedBlocks(20, SIZE), Swap(3)
    seqs = [make_seq([1] * 6), make_seq([2] * 6)]
    for seq in seqs:
        assert blocks.allocate(seq, 6)
        seq.num_computed = 6
    assert [len(swap.evict(seq, blocks)) for seq in seqs] == [2, 0]
    assert [seq.num_computed for seq in seqs] == [6, 0]
    assert blocks.num_free == blocks.num_total
    swap.drop(seqs[0])
    assert len(swap._free) == 3
