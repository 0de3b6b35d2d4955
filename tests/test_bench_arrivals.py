"""Requests that come by and by: when they are due, and what is measured of them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.bench import arrivals
from minfer.bench.arrivals import poisson, run_arrivals
from minfer.bench.run import run_workload
from minfer.bench.workload import mixed
from minfer.errors import MinferError
from minfer.llm import LLM


@pytest.fixture(scope="module")
def llm():
    with LLM("dummy:tiny", max_model_len=128, max_num_seqs=4, num_kv_blocks=64) as llm:
        yield llm


@settings(max_examples=30)
@given(st.integers(1, 50), st.floats(0.01, 1e4), st.integers(0, 9))
def test_a_poisson_process_begins_at_once_and_goes_on(requests, rate, seed):
    due = poisson(requests, rate, seed)
    assert len(due) == requests
    assert due[0] == 0
    assert all(a <= b for a, b in itertools.pairwise(due))
    assert due == poisson(requests, rate, seed)


def test_a_poisson_process_has_its_rate():
    due = poisson(4000, 50.0)
    gaps = [b - a for a, b in itertools.pairwise(due)]
    assert 4000 / due[-1] == pytest.approx(50, rel=0.1)
    assert sum(gap > 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.05)  # exponential: exp(-1)
    for rate in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(MinferError, match="positive"):
            poisson(1, rate)


def test_requests_that_come_by_and_by_get_the_same_tokens(llm):
    """As all at once; each with the time to its first token, and a gap before each later one."""
    workload = mixed(5, (4, 30), (1, 8), 320, 128, seed=2)
    together = run_workload(llm, workload)
    run = run_arrivals(llm, workload, [0.0, 0.0, 0.02, 0.05, 0.08])
    assert run.token_ids == together.token_ids
    assert len(run.gap_s) == run.output_tokens - 5
    assert all(each > 0 for each in run.first_token_s + run.gap_s)
    assert run.seconds > 0.08
    assert set(run.describe()["percentiles"]) == {"ttft_ms", "tpot_ms", "itl_ms"}
    assert not llm.has_unfinished()


def test_a_request_that_is_due_during_a_step_counts_the_wait(monkeypatch):
    """An open loop: time to first token is counted from when the request was due, not from when the engine took it."""
    clock = [0.0]
    monkeypatch.setattr(arrivals, "time", SimpleNamespace(perf_counter=lambda: clock[0], sleep=lambda s: clock.append(clock.pop() + s)))
    live: dict[str, int] = {}

    class Slow:
        def stats(self):
            return SimpleNamespace(num_steps=0, num_preemptions=0)

        def add_request(self, name, prompt, params):
            live[name] = 0

        def has_unfinished(self):
            return bool(live)

        def step(self):
            clock[0] += 1.0
            outputs = []
            for name in list(live):
                live[name] += 1
                done = live[name] == 2
                metrics = SimpleNamespace(finished_time=1.0, first_token_time=0.0)
                completion = SimpleNamespace(token_ids=[7] * live[name], text="")
                outputs.append(SimpleNamespace(request_id=name, outputs=[completion], finished=done, metrics=metrics))
                if done:
                    del live[name]
            return outputs

    run = run_arrivals(Slow(), mixed(3, (1, 1), (2, 2), 9, 9), [0.0, 0.25, 5.0])
    assert run.first_token_s == [1.0, 1.75, 1.0]
    assert run.gap_s == [1.0, 1.0, 1.0]
    assert run.seconds == 7.0
