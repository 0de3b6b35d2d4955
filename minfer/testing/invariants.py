"""What must hold of a scheduler and its blocks between any two steps."""

from __future__ import annotations

from collections import Counter

from minfer.blocks.contiguous import ContiguousBlocks
from minfer.blocks.paged import PagedBlocks
from minfer.preemption.swap import Swap
from minfer.types import Status


def check_scheduler(scheduler) -> None:
    """Every live sequence is in exactly one queue; only the running hold rows and blocks; rows and blocks add up.

    Raises:
        AssertionError: with what is wrong.
    """
    queues = {
        Status.HELD: list(scheduler.held.values()),
        Status.WAITING: list(scheduler.waiting),
        Status.RUNNING: list(scheduler.running),
    }
    everywhere = Counter(seq.seq_id for queue in queues.values() for seq in queue)
    assert everywhere == Counter(scheduler.live.keys()), f"queues hold {dict(everywhere)}, alive are {sorted(scheduler.live)}"
    for status, queue in queues.items():
        for seq in queue:
            assert seq.status is status, f"sequence {seq.seq_id} says {seq.status} and is in the queue {status}"
            if status is not Status.RUNNING:
                assert seq.row is None, f"sequence {seq.seq_id} is {status.value} and holds row {seq.row}"
                assert not seq.block_table, f"sequence {seq.seq_id} is {status.value} and holds blocks {seq.block_table}"
    rows = [seq.row for seq in scheduler.running] + list(scheduler._free_rows)
    assert sorted(rows) == list(range(scheduler.config.max_num_seqs)), f"rows do not add up: {sorted(rows)}"
    check_blocks(scheduler.blocks, scheduler.running)


def check_blocks(blocks, running) -> None:
    """Every block is free or in use; of minfer's own parts also which: never both, and in as many tables as they count."""
    held = Counter(block for seq in running for block in seq.block_table)
    assert all(1 <= block <= blocks.num_total for block in held), f"block numbers go from 1 to {blocks.num_total}: {sorted(held)}"
    free, total = blocks.num_free, blocks.num_total
    assert free + len(held) == total, f"{free} of {total} blocks are free and {len(held)} in tables: one is lost, or counted twice"
    if isinstance(blocks, PagedBlocks | ContiguousBlocks):
        free = list(blocks._free)
        assert len(set(free)) == len(free), f"a block is in the free list twice: {free}"
        assert not set(free) & set(held), f"blocks are free and in use: {sorted(set(free) & set(held))}"
    if isinstance(blocks, PagedBlocks):
        counted = {block: count for block, count in enumerate(blocks.refs) if count}
        assert counted == dict(held), f"reference counts {counted}, in tables {dict(held)}"
    for seq in running:
        assert len(seq.block_table) * blocks.block_size >= seq.num_computed, f"sequence {seq.seq_id} has K/V beyond its blocks"


def check_idle(scheduler) -> None:
    """With no sequence alive, everything has been given back."""
    assert not scheduler.live, f"sequences are still alive: {sorted(scheduler.live)}"
    check_scheduler(scheduler)
    assert scheduler.blocks.num_free == scheduler.blocks.num_total, "blocks leaked"
    assert not scheduler._waits_for, "sequences wait for a parent that has gone"
    if isinstance(scheduler.preemption, Swap):
        host = scheduler.preemption._free
        assert len(set(host)) == len(host) == scheduler.preemption.num_host_blocks, "host blocks leaked"
