"""Plans without a model: they are those that the scheduler would make for the same arrivals with one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.blocks.prefix import PrefixBlocks
from minfer.course.toy_run import plans_of, tokens_by_step
from minfer.scheduler.base import BaseScheduler
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.scheduler.continuous import ContinuousScheduler
from minfer.scheduler.static import StaticScheduler

ARRIVALS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(ARRIVALS, st.sampled_from([StaticScheduler, ContinuousScheduler, ChunkedScheduler]), st.integers(1, 4), st.integers(1, 30))
def test_every_token_is_computed_once_and_none_before_it_arrives(arrivals, scheduler, rows, budget):
    """The last token of an output is sampled and never computed. Where nothing runs, a later arrival need not wait for its step."""
    plans = plans_of(scheduler, arrivals, rows=rows, budget=budget)
    steps = tokens_by_step(plans)
    for number, (first, prompt, output) in enumerate(sorted(arrivals, key=lambda arrival: arrival[0])):
        computed = [step for step, tokens in enumerate(steps) if number in tokens]
        assert sum(steps[step][number] for step in computed) == prompt + output - 1
        assert computed[0] >= first or not any(other < number for other in steps[computed[0]]), "somebody was alive, and it came early"
    assert all(len(tokens) <= rows for tokens in steps)


def test_prompts_may_be_given_by_their_ids():
    """Two equal ones share what was computed of the first; two given by their length never do."""
    equal = tokens_by_step(plans_of(ChunkedScheduler, [(0, [7] * 9, 2), (5, [7] * 9, 2)], blocks=PrefixBlocks, block_size=4))
    assert equal == [{0: 9}, {0: 1}, {1: 1}, {1: 1}]
    others = tokens_by_step(plans_of(ChunkedScheduler, [(0, 9, 2), (5, 9, 2)], blocks=PrefixBlocks, block_size=4))
    assert others == [{0: 9}, {0: 1}, {1: 9}, {1: 1}]


def test_a_scheduler_that_plans_nothing_is_no_endless_loop():
    class Lazy(BaseScheduler):
        def schedule(self):
            return None

    with pytest.raises(RuntimeError, match="Lazy plans nothing in step 0, and sequences \\[0\\] are alive"):
        plans_of(Lazy, [(0, 3, 3)])
