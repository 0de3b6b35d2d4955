"""What must hold of a scheduler and its blocks between any two steps."""

from __future__ import annotations

from collections import Counter

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
    """Every block is free or in use, never both; blocks with counts are in as many tables as they count."""
    held = Counter(block for seq in running for block in seq.block_table)
    free = list(blocks._free)
    assert len(set(free)) == len(free), f"a block is in the free list twice: {free}"
    assert not set(free) & set(held), f"blocks are free and in use: {sorted(set(free) & set(held))}"
    assert sorted({*free, *held}) == list(range(1, blocks.num_total + 1)), "a block is lost, or the padding block was handed out"
    if hasattr(blocks, "refs"):
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
    host = getattr(scheduler.preemption, "_free", None)
    if host is not None:
        assert len(set(host)) == len(host) == scheduler.preemption.num_host_blocks, "host blocks leaked"
