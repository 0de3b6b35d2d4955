"""The soak: it runs clean on what ships, and it notices planted faults."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from cli_runner import run
from engine_fixtures import MIXES

from minfer.bench import shaky
from minfer.bench.soak import Soak, Tally
from minfer.bench.soak_requests import Case, close, make_cases
from minfer.llm import LLM
from minfer.outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from minfer.params import SamplingParams
from minfer.stages import CHUNKED, Stage

MUTANTS = Path(__file__).parent / "mutants"
SMALL = {"num_kv_blocks": 14, "block_size": 4}
SIZES = {"max_model_len": 48, "max_num_seqs": 6, "max_num_batched_tokens": 24, **SMALL}
MIXED = [MIXES[name] for name in ("cpu", "cpu+swap", "cpu+priority", "cpu+ahead", "cpu+ahead+swap") if name in MIXES]
PREFIX = "minfer.blocks.prefix:PrefixBlocks"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return make_cases("dummy:tiny", 60, SIZES["max_model_len"], 0, {})


def soak(stage: Stage, cases: list[Case], steps: int) -> Tally:
    """A number of steps, and not of seconds, so that a busy machine does the same."""
    room = {"num_host_blocks": 8} if stage.preemption != CHUNKED.preemption else {}
    with LLM("dummy:tiny", stage=stage, **SIZES, **room) as llm:
        return Soak(llm, cases, seed=1).run(math.inf, steps)


def test_requests_are_of_every_kind(cases):
    """And prompts begin alike, so that a prefix cache has something to find."""
    params = [case.params for case in cases]
    neutral = {"n": 1, "temperature": 0, "top_p": 1, "repetition_penalty": 1, "logprobs": None, "stop_token_ids": ()}
    for name, off in neutral.items():
        assert {getattr(each, name) == off for each in params} == {True, False}, name
    assert max(len(case.prompt) + case.params.max_tokens for case in cases) <= SIZES["max_model_len"]
    assert len({tuple(case.prompt[:8]) for case in cases if len(case.prompt) > 12}) <= 4
    reasons = {completion.finish_reason for case in cases for completion in case.expected.outputs}
    assert reasons == {"stop", "length"}


def test_near_ties_are_left_out(monkeypatch, cases):
    """With a hundred times the shaking, many requests are no longer clear; without any, all are."""
    monkeypatch.setattr(shaky, "AMOUNT", 0.0)
    assert len(make_cases("dummy:tiny", 60, 48, 0, {})) == 60
    monkeypatch.setattr(shaky, "AMOUNT", 3e-2)
    assert len(make_cases("dummy:tiny", 60, 48, 0, {})) < 50


@pytest.mark.parametrize("stage", MIXED, ids=lambda stage: stage.name)
def test_what_ships_soaks_clean(stage, cases):
    """Under preemption, aborts, prefix hits and rests, in every combination that runs here."""
    tally = soak(stage, cases, 1000)
    assert tally.faults == []
    assert tally.well
    for name in ("finished", "aborted", "output_tokens", "cached_tokens", "steps", "preemptions", "idle_checks"):
        assert getattr(tally, name) > 0, name


@pytest.mark.parametrize(
    ("slot", "name", "others"),
    [
        ("blocks", "leaks_the_last", {}),
        ("blocks", "matches_all", {}),
        ("blocks", "writes_shared", {}),
        ("scheduler", "loses_a_token", {}),
        ("scheduler", "leaks_a_row", {}),
        ("scheduler", "forgets_freed_rows", {}),
        ("preemption", "leaks_the_host", {"blocks": PREFIX}),
        ("preemption", "rounds_down", {"blocks": PREFIX}),
        ("executor", "copies_too_late", {"preemption": "minfer.preemption.swap:Swap"}),
        ("sample", "noise_by_row", {}),
        ("write_kv", "next_slot", {}),
    ],
)
def test_a_planted_fault_is_noticed(slot, name, others, cases):
    """Within two thousand steps; what is wrong is described."""
    kind = "mutant" if slot in ("sample", "write_kv") else "Mutant"
    tally = soak(CHUNKED.with_parts(**{slot: f"{MUTANTS / slot / name}.py:{kind}"}, **others), cases, 2000)
    assert not tally.well
    assert tally.faults
    assert json.loads(json.dumps(tally.describe()))["well"] is False


def test_a_step_that_raises_ends_the_soak(cases, monkeypatch):
    with LLM("dummy:tiny", **SIZES) as llm:
        monkeypatch.setattr(llm.engine.executor, "launch", lambda plan: 1 / 0)
        tally = Soak(llm, cases).run(60)
    assert tally.errors == 1
    assert "ZeroDivisionError" in tally.faults[0]
    assert not tally.well


@pytest.mark.parametrize("change", [{"token_ids": [7, 8, 9]}, {"token_ids": [7, 8]}, {"finish_reason": "stop"}, {"stop_reason": 8}])
def test_what_is_wrong_at_the_end_is_noticed(change):
    """Another token, one token fewer, another reason: and nothing else is."""
    right = CompletionOutput(0, "", [7, 8, 8], None, None, "length")
    metrics = RequestMetrics(0.0, 0.0, 0.0, 0.0, 0, 0)
    output = RequestOutput("a", None, [1], None, [right], True, metrics)
    case = Case([1], SamplingParams(), output)
    assert case.wrong_at_end(output) is None
    assert case.wrong_at_end(replace(output, outputs=[replace(right, **change)])).startswith("completion 0")


def test_the_last_output_is_judged(cases):
    """Not only what is streamed before it."""
    ends = [replace(case.expected, outputs=[replace(each, finish_reason="never") for each in case.expected.outputs]) for case in cases]
    tally = soak(CHUNKED, [replace(case, expected=end) for case, end in zip(cases, ends, strict=True)], 200)
    assert tally.mismatches == tally.finished > 0


def test_a_block_that_is_not_given_back_is_counted(cases):
    with LLM("dummy:tiny", stage=CHUNKED, **SIZES) as llm:
        llm.engine.blocks._pop()
        tally = Soak(llm, cases).run(math.inf, 50)
    assert tally.leaked_blocks == tally.idle_checks > 0
    assert "1 blocks are not free" in tally.faults[0]


def test_logprobs_must_agree():
    def at(value: float) -> list[dict[int, Logprob] | None]:
        return [None, {7: Logprob(value, 1, None), 3: Logprob(-9.0, 2, None)}]

    assert close(None, None)
    assert close(at(-1.0), at(-1.0001))
    assert not close(at(-1.0), at(-1.1))
    assert not close(at(-1.0), None)
    assert not close(at(-1.0)[:1], at(-1.0))
    assert not close([None, {3: Logprob(-9.0, 1, None)}], at(-1.0))


def test_bench_soak_counts_and_exits_with_1_on_a_fault(tmp_path):
    report = tmp_path / "soak.json"
    result = run("bench", "soak", "--seconds", 1, "--requests", 20, "--json", report)
    assert "0 mismatches, 0 blocks leaked, 0 errors" in result.stdout
    found = json.loads(report.read_text())
    assert (found["kind"], found["stage"], found["well"], found["faults"]) == ("soak", "cpu", True, [])
    assert found["finished"] > 0
    wrong = f"sample={MUTANTS / 'sample' / 'noise_by_row.py'}:mutant"
    assert "not" in run("bench", "soak", "--seconds", 1, "--requests", 20, "--swap", wrong, code=1).stdout
