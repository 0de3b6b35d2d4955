"""Blocks: every sequence reads back exactly what it wrote, whoever shares, forks, grows and frees beside it."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from slot_fixtures import PrefixCache, make_seq
from slot_suites import suite_test

from minfer.blocks.contiguous import ContiguousBlocks
from minfer.blocks.paged import PagedBlocks
from minfer.blocks.prefix import PrefixBlocks
from minfer.testing.invariants import check_blocks
from minfer.testing.toy import toy_config

PARTS = {"contiguous": ContiguousBlocks, "paged": PagedBlocks, "prefix": PrefixBlocks}
STEMS = [[0] * 14, [0, 1] * 7, [1, 0, 0] * 5]
MAX_LEN = 20


test_every_part_has_the_properties = suite_test("blocks")


class Sharing(RuleBasedStateMachine):
    """Start, fork, grow and free sequences at random; an array of numbers stands for the K/V cache."""

    @initialize(
        part=st.sampled_from(list(PARTS)),
        block_size=st.integers(1, 5),
        num_blocks=st.integers(2, 14),
        constant_hash=st.booleans(),
    )
    def build(self, part, block_size, num_blocks, constant_hash):
        self.patch = pytest.MonkeyPatch()
        if constant_hash:
            self.patch.setattr("minfer.blocks.prefix.chain", lambda parent, tokens: 7)
        size = PARTS[part].size_of_block(toy_config(block_size=block_size, max_model_len=MAX_LEN))
        self.blocks = PARTS[part](num_blocks, size)
        self.cache = PrefixCache(num_blocks, 0, size)
        self.live = []

    def allocate(self, seq, num_tokens, keep=0) -> bool:
        """All or nothing, and exactly when there is room."""
        blocks, before, free = self.blocks, list(seq.block_table), self.blocks.num_free
        first = seq.num_computed // blocks.block_size
        refs = getattr(blocks, "refs", None)
        copies = refs is not None and first < len(before) and refs[before[first]] > 1
        need = max(-(-num_tokens // blocks.block_size) - len(before), 0) + copies
        kept = keep if refs is not None else 0  # a contiguous block never grows: nothing need be kept for later
        done = blocks.allocate(seq, num_tokens, keep)
        assert done == (need == 0 or need + kept <= free)
        assert len(blocks.copies) == (copies and done)
        assert free - blocks.num_free == (need if done else 0)
        if not done:
            assert seq.block_table == before
        self.cache.copy(blocks.copies)
        return done

    def begin(self, seq, keep):
        """As admission does: take what is there already, then room for the rest."""
        found = self.blocks.lookup(seq)
        seq.num_computed = self.blocks.match(seq)
        assert seq.parent is not None or seq.num_computed == found
        assert seq.num_computed < seq.num_tokens, "at least the last token is computed"
        self.cache.check(seq)
        if self.allocate(seq, seq.num_tokens, keep):
            self.live.append(seq)
        else:
            self.blocks.free(seq)

    @rule(stem=st.sampled_from(STEMS), shared=st.integers(0, 14), tail=st.lists(st.integers(0, 2), max_size=3), keep=st.integers(0, 2))
    def start(self, stem, shared, tail, keep):
        self.begin(make_seq([*stem[:shared], *tail] or [0]), keep)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), keep=st.integers(0, 2))
    def fork(self, data, keep):
        parent = data.draw(st.sampled_from(self.live))
        if parent.parent is None and parent.num_computed >= parent.num_prompt:
            self.begin(make_seq(list(parent.request.prompt_ids), parent), keep)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), count=st.integers(1, 4), token=st.integers(0, 2))
    def grow(self, data, count, token):
        """Compute some of the known tokens; when none are left, a new one is known."""
        seq = data.draw(st.sampled_from(self.live))
        count = min(count, seq.num_tokens - seq.num_computed)
        if count == 0:
            if seq.num_tokens < MAX_LEN:
                seq.token_ids.append(token)
        elif self.allocate(seq, seq.num_computed + count):
            self.cache.compute(seq, count)
            self.blocks.commit(seq)

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def free(self, data):
        seq = data.draw(st.sampled_from(self.live))
        self.live.remove(seq)
        self.blocks.free(seq)
        self.blocks.free(seq)  # freeing twice changes nothing

    @invariant()
    def everyone_reads_their_own(self):
        for seq in getattr(self, "live", ()):
            self.cache.check(seq)
        if hasattr(self, "blocks"):
            check_blocks(self.blocks, self.live)

    def teardown(self):
        if hasattr(self, "blocks"):
            for seq in self.live:
                self.blocks.free(seq)
            assert self.blocks.num_free == self.blocks.num_total
            self.patch.undo()


Sharing.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestSharing = Sharing.TestCase


def filled(blocks, tokens: list[int], salt: int = 0):
    """A sequence whose tokens are all computed and committed."""
    seq = make_seq(tokens, salt=salt)
    seq.num_computed = blocks.match(seq)
    assert blocks.allocate(seq, len(tokens))
    seq.num_computed = len(tokens)
    blocks.commit(seq)
    return seq


@pytest.mark.parametrize("part", [PagedBlocks, PrefixBlocks])
@given(size=st.integers(1, 6), count=st.integers(1, 4), off=st.integers(-1, 1))
def test_block_edges(part, size, count, off):
    """n tokens take ceil(n / block_size) blocks, at the edge and beside it; the token after them a new one only at the edge."""
    length = max(size * count + off, 1)
    blocks = part(20, size)
    seq = filled(blocks, [1] * length)
    assert len(seq.block_table) == -(-length // size)
    assert blocks.allocate(seq, length + 1)
    assert len(seq.block_table) == -(-(length + 1) // size)
    assert 0 not in seq.block_table, "block 0 is the padding block"


def test_the_same_block_behind_another_prefix_is_no_hit():
    """[a, b] + [c, d] and [x, y] + [c, d]: the second block's tokens are equal, what is before them is not."""
    blocks = PrefixBlocks(20, 2)
    filled(blocks, [1, 2, 3, 4, 9])
    assert blocks.lookup(make_seq([1, 2, 3, 4, 8])) == 4
    assert blocks.lookup(make_seq([5, 6, 3, 4, 8])) == 0
    assert blocks.lookup(make_seq([1, 2, 4, 3, 8])) == 2
    assert blocks.lookup(make_seq([3, 4, 3, 4, 8])) == 0


def test_another_salt_is_another_tree():
    """Equal prompts whose K/V differ (their salts say so) never share a block."""
    blocks = PrefixBlocks(20, 2)
    filled(blocks, [1, 2, 3, 4, 9], salt=1)
    assert blocks.lookup(make_seq([1, 2, 3, 4, 9], salt=1)) == 4
    assert blocks.lookup(make_seq([1, 2, 3, 4, 9], salt=2)) == 0


@given(st.lists(st.integers(0, 1), min_size=1, max_size=12), st.integers(1, 4))
def test_a_lookup_takes_nothing(tokens, size):
    """It says what match would find, and leaves blocks and their order of reuse alone."""
    blocks = PrefixBlocks(30, size)
    blocks.free(filled(blocks, tokens))
    before = list(blocks._free), list(blocks.refs)
    assert blocks.lookup(make_seq(tokens)) == (len(tokens) - 1) // size * size
    assert (list(blocks._free), blocks.refs) == before


def test_only_what_is_computed_and_known_is_shared():
    """A block counts once all its tokens are in the cache, and not while the last one's value is unknown to the host."""
    blocks = PrefixBlocks(20, 2)
    seq = make_seq([1, 2, 3])
    assert blocks.allocate(seq, 4)
    for computed, found in ((1, 0), (2, 2), (3, 2)):
        seq.num_computed = computed
        blocks.commit(seq)
        assert blocks.lookup(make_seq([1, 2, 3, 4, 5])) == found
    seq.num_computed, seq.num_pending = 4, 1  # its fourth token is computed, and not yet known
    blocks.commit(seq)
    assert blocks.lookup(make_seq([1, 2, 3, 0, 5])) == 2
    seq.token_ids.append(0)
    blocks.commit(seq)
    assert blocks.lookup(make_seq([1, 2, 3, 0, 5])) == 4


def test_the_block_that_was_free_for_longest_goes_first():
    """Empty blocks before cached ones, then the oldest; of one sequence its end before its beginning; a hit makes it young again."""
    blocks = PrefixBlocks(1 + 6, 2)
    old, young = filled(blocks, [1] * 4), filled(blocks, [2] * 4)
    (*_, old_end), (*_, young_end) = list(old.block_table), list(young.block_table)
    never_used = [block for block in range(1, 7) if block not in old.block_table + young.block_table]
    blocks.free(old)
    blocks.free(young)
    blocks.free(filled(blocks, [1] * 3))  # uses the first block of the old one, which is now the youngest
    taken = make_seq([3] * 12)
    assert blocks.allocate(taken, 12)
    assert set(taken.block_table[:2]) == set(never_used)
    assert taken.block_table[2] == old_end
    assert taken.block_table[3] == young_end
    assert blocks.num_free == 0
    blocks.free(taken)
    assert blocks.lookup(make_seq([1] * 4)) == blocks.lookup(make_seq([2] * 4)) == 0, "their memory was used for something else"


def test_a_block_in_use_is_never_taken():
    """However scarce: allocation fails before it touches a block that some sequence still reads."""
    blocks = PrefixBlocks(1 + 3, 2)
    reader = filled(blocks, [1, 1, 2])
    assert not blocks.allocate(make_seq([5] * 4), 4)
    assert blocks.lookup(make_seq([1, 1, 3])) == 2
    blocks.free(reader)
    assert blocks.allocate(make_seq([5] * 6), 6)


def test_a_parent_that_gave_way_is_not_forked_from():
    """Nor from one without output yet: its blocks may be written in this very step. The child computes the prompt on its own."""
    blocks = PagedBlocks(20, 2)
    parent = filled(blocks, [1, 2, 3])
    assert blocks.match(make_seq([1, 2, 3], parent)) == 0
    parent.token_ids.append(4)
    parent.num_preemptions = 1
    assert blocks.match(make_seq([1, 2, 3], parent)) == 0
    parent.num_preemptions = 0
    child = make_seq([1, 2, 3], parent)
    assert blocks.match(child) == 2
    assert child.block_table == parent.block_table


def test_contiguous_blocks_waste_nothing_of_the_count():
    """As many sequences as blocks, though others run: none will ever need a second one."""
    blocks = ContiguousBlocks(1 + 3, 64)
    seqs = [make_seq([1] * 5) for _ in range(4)]
    assert [blocks.allocate(seq, 5, keep=1) for seq in seqs] == [True, True, True, False]
    assert all(blocks.allocate(seq, 64) for seq in seqs[:3])
    assert [len(seq.block_table) for seq in seqs] == [1, 1, 1, 0]
