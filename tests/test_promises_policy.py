"""What shortest job first with patience promises: the part keeps it, the other policies do not, and waits are bounded by it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.bench.simulated import Device, Job, simulate
from minfer.policy import fcfs, priority, shortest_job, shortest_prompt
from minfer.testing.checking import check
from minfer.testing.promises.policy import PROPERTIES
from minfer.testing.suites import suite_of

A_PLACE = shortest_job.TOKENS_A_PLACE
PROMISES = {prop.name: prop for prop in PROPERTIES}


def without_patience(seq, context):
    return (seq.limit - seq.num_computed, seq.seq_id)


def forgets_the_prompt(seq, context):
    return (seq.limit - seq.num_tokens + A_PLACE * seq.seq_id, seq.seq_id)


def forgets_what_is_computed(seq, context):
    return (seq.limit + A_PLACE * seq.seq_id, seq.seq_id)


def counts_the_prompt(seq, context):
    return (seq.num_prompt + A_PLACE * seq.seq_id, seq.seq_id)


def too_patient(seq, context):
    return (seq.limit - seq.num_computed + (A_PLACE - 1) * seq.seq_id, seq.seq_id)


@pytest.mark.parametrize("name", PROMISES)
def test_the_part_keeps_it(name):
    result = check(PROMISES[name], shortest_job.policy)
    assert result.passed, (result.case, result.error)


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        (fcfs.policy, {"short-first"}),
        (priority.policy, {"short-first"}),
        (shortest_prompt.policy, {"short-first", "patience"}),
        (without_patience, {"patience"}),
        (forgets_the_prompt, {"short-first", "patience"}),
        (forgets_what_is_computed, {"short-first", "patience"}),
        (counts_the_prompt, {"short-first", "patience"}),
        (too_patient, {"patience"}),
    ],
)
def test_who_does_not_is_caught(part, broken):
    results = {name: check(prop, part, examples=400, shrink=False) for name, prop in PROMISES.items()}
    assert {name for name, result in results.items() if result.status == "failed"} == broken


def test_the_suite_has_them_only_when_asked():
    assert suite_of("policy", promised=True) == [*suite_of("policy"), *PROPERTIES]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=2, max_size=40))
@settings(deadline=None, max_examples=40)
def test_nobody_is_overtaken_more_often_than_its_tokens_allow(sizes):
    """All come at once and run one by one: a request with n tokens sees at most n / TOKENS_A_PLACE later ones go first."""
    jobs = [Job(0.0, prompt, output) for prompt, output in sizes]
    times = simulate(jobs, policy=shortest_job.policy, rows=1, device=Device(1.0, 0.0))
    for i, job in enumerate(jobs):
        later = sum(times[j].tokens[0] < times[i].tokens[0] for j in range(i + 1, len(jobs)))
        assert later <= (job.prompt + job.output) / A_PLACE
