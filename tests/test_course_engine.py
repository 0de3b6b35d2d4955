"""Beneath `minfer check ch04`: its worker process, a suite on what is not written yet, and the requests of the whole engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from course_fixtures import NORM, write_chapter

from minfer.course import engine_run
from minfer.course.jobs import PASSED, all_jobs
from minfer.course.starter import generate
from minfer.course.supervise import Request, events
from minfer.params import SamplingParams
from minfer.testing.checking import check
from minfer.testing.limits import limited
from minfer.testing.suites import suite_of

pytestmark = pytest.mark.slow


def test_kernels_are_interpreted(tmp_path):
    """Without a GPU, the worker does so by itself, and the engine takes the interpreted kernel too."""
    pytest.importorskip("triton")
    other = write_chapter(tmp_path, NORM, "07_fused_norm")
    path = tmp_path / "mine.py"
    path.write_text(generate(other, solved=True))
    request = Request(other, {"norm": f"{path}:add_rms_norm"}, all_jobs(other.tasks), True, False, 2)
    found = list(events(request))
    assert [event["outcome"].status for event in found if event["event"] == "outcome"] == [PASSED] * 3, found


def test_the_stuck_property_of_loops_does_not_take_a_stub_for_an_error():
    """A loop that is not written yet raises, and that is not the error which is asked for."""

    def loop(scheduler, executor):
        raise NotImplementedError("ch13 task1: loop")
        yield

    results = [check(limited(prop, 5, Path(__file__)), loop, examples=1, shrink=False) for prop in suite_of("loop")]
    assert {result.status for result in results} == {"not written"}


def test_near_ties_are_measured(tmp_path):
    """On a GPU a token may differ where the two likeliest are close: how close is the difference of their log-probabilities."""
    stage = engine_run.stage_here(write_chapter(tmp_path))
    prompt = [5, 9, 11]
    with_logprobs = engine_run.open_engine(stage, "cpu", False)
    params = SamplingParams(max_tokens=1, temperature=0, logprobs=3)
    with_logprobs.add_request("a", prompt, params, stream=False)
    first = with_logprobs.step()[0].outputs[0].logprobs[0]
    best, second = sorted(first, key=lambda token: -first[token].logprob)[:2]
    far = engine_run.distance(engine_run.open_engine(stage, "cpu", False), prompt, best, second)
    assert far == pytest.approx(first[best].logprob - first[second].logprob, abs=1e-4)
    assert engine_run.distance(engine_run.open_engine(stage, "cpu", False), prompt, best, -1) == float("inf")


def test_the_engines_requests_are_uneven():
    """Different prompts that fit, some with a common beginning, some longer than a step may compute."""
    asks = engine_run.requests(small=False)
    assert len({tuple(ask.prompt) for ask in asks}) == len(asks) == 8
    assert all(len(ask.prompt) + ask.params.max_tokens <= 64 for ask in asks)
    assert sum(ask.prompt[:9] == asks[1].prompt[:9] for ask in asks) >= 3
    assert any(len(ask.prompt) > 16 for ask in asks)
