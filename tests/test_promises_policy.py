"""What shortest job first with patience promises: the part keeps it, the other policies do not, and waits are bounded by it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.bench.simulated import Device, Job, simulate
from minfer.course.checking import check_job
from minfer.course.jobs import all_jobs, points_of
from minfer.course.library import find_chapter
from minfer.policy import fcfs, priority, shortest_job, shortest_prompt
from minfer.testing.checking import check
from minfer.testing.promises.policy import PROPERTIES
from minfer.testing.suites import suite_of
from minfer.testing.target import find_target

A_PLACE = shortest_job.TOKENS_A_PLACE
PROMISES = {prop.name: prop for prop in PROPERTIES}


def left(seq):
    return seq.limit - seq.num_computed


def in_places(seq, context):
    return (left(seq) / A_PLACE + seq.seq_id, seq.seq_id)


def openly(seq, context):
    """All keys fall as tokens are computed, by the same amount."""
    return (left(seq) - A_PLACE * (sum(context.served.values()) - seq.seq_id), seq.seq_id)


openly.changes = True
RIGHT = {"the part": shortest_job.policy, "in places": in_places, "openly": openly}


def no_patience(seq, context):
    return (left(seq), seq.seq_id)


def latest_first(seq, context):
    return (left(seq) - A_PLACE * seq.seq_id, seq.seq_id)


def output_alone(seq, context):
    return (seq.limit - seq.num_tokens + A_PLACE * seq.seq_id, seq.seq_id)


def prompt_alone(seq, context):
    return (seq.num_prompt + A_PLACE * seq.seq_id, seq.seq_id)


def whatever_is_computed(seq, context):
    return (seq.limit + A_PLACE * seq.seq_id, seq.seq_id)


def too_impatient(seq, context):
    return (left(seq) + (A_PLACE - 1) * seq.seq_id, seq.seq_id)


def rounded(seq, context):
    return (left(seq) // A_PLACE + seq.seq_id, seq.seq_id)


def by_the_clock(seq, context):
    return (left(seq) + A_PLACE * seq.request.arrival, seq.seq_id)


def unfair_to_equals(seq, context):
    return (left(seq) + A_PLACE * seq.seq_id, -seq.seq_id)


def by_address(seq, context):
    return (left(seq) + A_PLACE * seq.seq_id, id(seq))


def by_name(seq, context):
    return (left(seq) + A_PLACE * seq.seq_id, seq.request.request_id)


def no_key_of_its_own(seq, context):
    return (left(seq) + A_PLACE * seq.seq_id,)


def changes_in_silence(seq, context):
    return openly(seq, context)


def touches(seq, context):
    seq.num_computed = 0
    return shortest_job.policy(seq, context)


class CountsCalls:
    def __init__(self):
        self.calls = 0

    def __call__(self, seq, context):
        self.calls += 1
        return (left(seq) + A_PLACE * self.calls, seq.seq_id)


class Remembers:
    def __init__(self):
        self.keys = {}

    def __call__(self, seq, context):
        return self.keys.setdefault(seq.seq_id, shortest_job.policy(seq, context))


ALL = {"short-first", "patience", "gave-way", "queue"}
WRONG = [
    (fcfs.policy, ALL),
    (priority.policy, ALL),
    (prompt_alone, ALL),
    (shortest_prompt.policy, ALL),
    (no_patience, ALL - {"short-first"}),
    (latest_first, ALL - {"short-first"}),
    (by_the_clock, ALL - {"short-first"}),
    (rounded, ALL - {"short-first"}),
    (too_impatient, ALL - {"short-first"}),
    (output_alone, ALL - {"patience"}),
    (whatever_is_computed, {"gave-way"}),
    (touches, {"gave-way"}),
    (unfair_to_equals, {"queue"}),
    (by_address, {"queue"}),
    (by_name, {"queue"}),
    (no_key_of_its_own, {"queue"}),
    (changes_in_silence, {"queue"}),
    (CountsCalls(), ALL),
    (Remembers(), ALL),
    (lambda seq, context: left(seq) + A_PLACE * seq.seq_id, ALL),
]


@pytest.mark.parametrize("name", PROMISES)
@pytest.mark.parametrize("part", RIGHT.values(), ids=RIGHT)
def test_the_right_ones_keep_it(name, part):
    result = check(PROMISES[name], part)
    assert result.passed, (result.case, result.error)


@pytest.mark.parametrize(("part", "broken"), WRONG, ids=[getattr(part, "__name__", type(part).__name__) for part, _ in WRONG])
def test_a_wrong_one_is_caught(part, broken):
    results = {name: check(prop, part, shrink=False) for name, prop in PROMISES.items()}
    assert {name for name, result in results.items() if result.status == "failed"} == broken


def test_by_arrival_earns_nothing():
    """A part without the chapter's idea has none of what the chapter gives points for."""
    chapter = find_chapter("ch16")
    target = find_target("policy", "minfer.policy.fcfs:policy")
    outcomes = {job.id: check_job(job, {"policy": target}, shrink=False) for job in all_jobs(chapter.tasks)}
    assert len(outcomes) == len(PROMISES)
    assert not any(points_of(task, outcomes) for task in chapter.tasks)


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
