"""Runs of real schedulers on a pretended device: their times can be worked out by hand."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.bench.simulated import Device, Job, arrivals, simulate
from minfer.scheduler.continuous import ContinuousScheduler

DEVICE = Device(weights_ms=4.0, token_ms=0.5)


def test_one_request_takes_a_step_a_token():
    """16 prompt tokens at 0.5 ms are longer than the weights' 4 ms; each decode is not."""
    (times,) = simulate([Job(10.0, 16, 3)], device=DEVICE)
    assert times.tokens == [18.0, 22.0, 26.0]
    assert (times.ttft, times.gaps) == (8.0, [4.0, 4.0])


def test_a_long_prompt_is_cut_and_the_others_go_on():
    """A budget of 9 is eight tokens of the prompt beside one decode, 4.5 ms each; whole, the prompt stops the other for 20.5 ms."""
    jobs = [Job(0.0, 1, 8), Job(3.0, 40, 1)]
    first, second = simulate(jobs, device=DEVICE, budget=9)
    assert first.gaps == [4.5] * 5 + [4.0] * 2
    assert second.tokens == [4.0 + 5 * 4.5]
    first, second = simulate(jobs, device=DEVICE, budget=64, scheduler=ContinuousScheduler)
    assert first.gaps == [20.5] + [4.0] * 6


def test_who_comes_when_nobody_is_there_is_served_at_once():
    """The clock goes on to the next arrival."""
    first, second = simulate([Job(0.0, 1, 1), Job(1000.0, 1, 1)], device=DEVICE)
    assert (first.tokens, second.tokens) == ([4.0], [1004.0])


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=15), st.integers(4, 30))
@settings(deadline=None, max_examples=40)
def test_every_job_gets_its_tokens_in_order_whatever_gives_way(drawn, num_blocks):
    """Also with so few blocks that sequences give way; and the same each time."""
    jobs = [Job(*each) for each in sorted(drawn)]
    runs = [simulate(jobs, rows=4, budget=16, num_blocks=num_blocks) for _ in range(2)]
    assert runs[0] == runs[1]
    for times in runs[0]:
        assert len(times.tokens) == times.job.output
        assert times.tokens == sorted(times.tokens)
        assert times.tokens[0] > times.job.due


def test_arrivals_are_those_of_the_seed_and_the_rate():
    jobs = arrivals(4000, 50, seed=1)
    assert jobs == arrivals(4000, 50, seed=1) != arrivals(4000, 50, seed=2)
    assert 75e3 < jobs[-1].due < 85e3
    long = [job for job in jobs if job.prompt > 256]
    assert 0.08 < len(long) / len(jobs) < 0.12
