"""The numbers of chapter 9, computed: those of its self-checks and those that its text predicts."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks
from minfer.course.toy_run import plans_of, sequence
from minfer.scheduler.chunked import ChunkedScheduler

LAYERS, KV_HEADS, HEAD_DIM, FLOAT32 = 30, 3, 64, 4  # of SmolLM2-135M
PARAMETERS = 134.5e6


def found_of_48() -> int:
    """Blocks of 16 tokens. A prompt of 48 tokens has been computed, and comes again: how many of its tokens are found?"""
    blocks = PrefixBlocks(10, 16)
    first = sequence(0, list(range(48)), 4)
    blocks.allocate(first, 48)
    first.num_computed = 48
    blocks.commit(first)
    return blocks.lookup(sequence(1, list(range(48)), 4))


def computed_by_the_second() -> int:
    """A system prompt of 1,000 tokens, blocks of 16, questions of 20 tokens: what does the second request compute first?"""
    system = list(range(1000))
    users = [(step, [*system, *range(5000 + 100 * step, 5020 + 100 * step)], 2) for step in (0, 5)]
    plans = plans_of(ChunkedScheduler, users, budget=4096, blocks=PrefixBlocks)
    return next(work.num_new for plan in plans for work in plan.work if work.seq_id == 1)


def bytes_of_a_token() -> int:
    """Bytes of one token's K/V: K and V, 30 layers, 3 heads of 64, 4 bytes each."""
    return 2 * LAYERS * KV_HEADS * HEAD_DIM * FLOAT32


def bytes_of_the_system_prompt() -> int:
    """Bytes of K/V that a cached system prompt of 1,000 tokens holds, in whole blocks of 16."""
    return 1000 // 16 * 16 * bytes_of_a_token()


def gflops_without() -> float:
    """GFLOPs of a prompt of 528 tokens, two for each weight and token."""
    return 2 * PARAMETERS * 528 / 1e9


def gflops_with() -> float:
    """GFLOPs of the 16 tokens that are left when 512 are found."""
    return 2 * PARAMETERS * 16 / 1e9


def predicted_factor() -> float:
    """How many times less there is to compute."""
    return gflops_without() / gflops_with()
