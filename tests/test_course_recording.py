"""A recording says what the run did: every token once, every block that held it, and nothing is different for being watched."""

from __future__ import annotations

import functools
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer import LLM, SamplingParams
from minfer import trace as traces
from minfer.course.recording import play, record, steps_of
from minfer.trace import Trace

STAGES = {
    "paged": {},
    "continuous": {},
    "chunked": {},
    "cpu-torch": {},
    "ahead": {"loop": "minfer.loop.overlapped:loop", "inputs": "minfer.inputs.resident:ResidentInputs"},
}


@functools.cache
def engine(stage: str) -> LLM:
    """Room for 12 blocks of 4 tokens: enough that one always runs, little enough that some give way."""
    sizes = {"max_model_len": 40, "max_num_seqs": 3, "max_num_batched_tokens": 8, "block_size": 4, "num_kv_blocks": 12}
    name = "chunked" if stage == "ahead" else stage
    return LLM("dummy:tiny", stage=name, swap=STAGES[stage] or None, **sizes)


def requests():
    prompt = st.lists(st.integers(3, 9), min_size=1, max_size=20)
    return st.lists(st.tuples(st.integers(0, 6), prompt, st.integers(1, 8)), min_size=1, max_size=5)


@pytest.mark.parametrize("stage", STAGES)
@given(arrivals=requests())
@settings(max_examples=8, deadline=None)
def test_every_token_is_in_the_recording(stage, arrivals):
    """A sequence's works join up, from what was cached to its last token; from an earlier one again after it gave way."""
    llm = engine(stage)
    before = llm.stats().num_preemptions
    steps = play(llm, arrivals)
    first = min(seq_id for step in steps for seq_id in step.running)
    by_arrival = sorted(arrivals, key=lambda arrival: arrival[0])
    assert [step.number - steps[0].number for step in steps] == list(range(len(steps)))
    assert [step.ended for step in steps] == sorted(step.ended for step in steps)
    assert all(set(step.sampled) <= {work.seq for work in step.work if work.samples} for step in steps)
    again = 0
    for i, (_, prompt, max_tokens) in enumerate(by_arrival):
        at, tokens = None, 0
        for step in steps:
            for work in step.work:
                if work.seq != first + i:
                    continue
                seen = step.running[work.seq]
                if at is None:
                    assert work.start == 0
                elif work.start != at:
                    assert work.start < at
                    again += 1
                at = work.start + work.num_new
                assert seen.num_computed == at <= len(seen.blocks) * 4
                assert seen.num_prompt == len(prompt)
            tokens += (first + i) in step.sampled
        assert at == len(prompt) + max_tokens - 1
        assert tokens == max_tokens
    assert again <= llm.stats().num_preemptions - before


@given(arrivals=requests())
@settings(max_examples=8, deadline=None)
def test_blocks_are_free_or_in_a_table(arrivals):
    for step in play(engine("chunked"), arrivals):
        held = {block for seq in step.running.values() for block in seq.blocks}
        assert 0 not in held
        assert step.num_free + len(held) == 12


def test_a_step_knows_who_waits_and_how_long_it_took():
    """Four at once where three rows are: the last waits until another has ended."""
    steps = play(engine("continuous"), [(0, [5, 6], 3)] * 3 + [(0, [5], 1)])
    last = max(steps[-1].running)
    assert steps[0].waiting == (last,)
    assert steps[0].num_new == 6
    assert [last in step.waiting for step in steps] == [True, True, True, False]
    assert sorted(steps[2].running) == sorted(steps[2].sampled) != sorted(steps[3].running)
    assert all(a.ended <= b.begun for a, b in itertools.pairwise(steps))
    assert sum(step.seconds for step in steps) <= steps[-1].ended


def test_a_request_comes_when_it_is_due_or_when_nothing_is_left_to_do():
    steps = play(engine("chunked"), [(2, [7], 2), (0, [5, 6], 4), (90, [8], 1)])
    first = min(steps[0].running)
    assert [sorted(seq_id - first for seq_id in step.running) for step in steps] == [[0], [0], [0, 1], [0, 1], [2]]


def test_a_step_in_flight_has_no_time_yet():
    llm = engine("ahead")
    llm.add_request("a", [5, 6], SamplingParams(max_tokens=4, ignore_eos=True))
    with record(llm) as steps:
        llm.step()
    with pytest.raises(ValueError, match="not been committed"):
        _ = steps[-1].seconds
    llm.abort("a")


def test_watching_changes_nothing():
    """The same tokens, and the scheduler is its own again afterwards."""
    llm = engine("chunked")
    params = SamplingParams(max_tokens=5, seed=1, ignore_eos=True)
    alone = llm.generate([[3, 4, 5]], params, progress=False)
    with record(llm) as steps:
        watched = llm.generate([[3, 4, 5]], params, progress=False)
    assert watched[0].outputs[0].token_ids == alone[0].outputs[0].token_ids
    with pytest.raises(KeyError), record(llm):
        raise KeyError
    assert len(steps) == 5
    assert "schedule" not in vars(llm.engine.scheduler)
    llm.generate([[3]], params, progress=False)
    assert len(steps) == 5


def test_times_are_those_of_the_trace():
    """From schedule to the end of commit, in seconds; a step that was not committed has three verbs."""
    llm = engine("chunked")
    content = traced(llm).content
    for entry, host in zip(content["steps"], ([[0, 10], [20, 30], [60, 5], [70, 8]], [[0, 10], [20, 30], [60, 5]]), strict=False):
        entry |= {"at": 1000, "host": host}
    first, second, *_ = steps_of(Trace(content))
    assert (first.begun, first.ended, second.ended) == (0.001, 0.001078, None)


def traced(llm: LLM) -> Trace:
    with traces.record(llm) as recording:
        llm.generate([[3, 4]], SamplingParams(max_tokens=3, ignore_eos=True), progress=False)
    return recording.trace
