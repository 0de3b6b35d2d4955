"""`minfer ladder`, `minfer bench` and `minfer demo`: the tables, and the reports that hold everything measured."""

from __future__ import annotations

import json

import pytest
from cli_runner import run, tiny_model

from minfer.bench.ladder import runnable

HERE = [stage.name for stage in runnable()[0]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def test_ladder_compares_every_stage_and_keeps_every_repeat(tiny, tmp_path):
    """A line a stage, tokens equal to the baseline's, and a report with the machine, the workloads and each run."""
    report = tmp_path / "new" / "ladder.json"
    result = run("ladder", "--model", tiny, "--requests", 5, "--repeats", 2, "--max-tokens", 8, "--json", report)
    lines = {line.split()[0]: line.split() for line in result.stdout.splitlines() if line.strip()}
    found = json.loads(report.read_text(), parse_constant=pytest.fail)
    assert [each["name"] for each in found["stages"]] == HERE
    assert all(lines[name][-1] == "yes" for name in HERE)
    assert set(found) >= {"date", "commit", "hardware", "versions", "model", "options", "workloads", "not_run"}
    assert found["workloads"][0] != found["workloads"][1]
    for stage in found["stages"]:
        assert [each["output_tokens"] for each in stage["repeats"]] == [sum(each["max_tokens"]) for each in found["workloads"]]
        assert [each["equal_requests"] for each in stage["repeats"]] == [5, 5]
        assert stage["peak_kv_mib"] > 0
        assert 0 <= stage["kv_wasted_percent"] < 100


def test_ladder_runs_the_chosen_stages_only(tiny):
    """Without the baseline there is nothing to compare the tokens with, and the table says so."""
    result = run("ladder", "--model", tiny, "--stages", "paged,chunked", "--requests", 2, "--repeats", 1, "--max-tokens", 4)
    assert result.stderr.split() == ["running", "paged", "running", "chunked"]
    assert [line.split()[-1] for line in result.stdout.splitlines() if line.strip().startswith(("paged", "chunked"))] == ["–", "–"]


def test_a_report_that_cannot_be_written_is_refused_before_the_work(tiny, tmp_path):
    result = run("ladder", "--model", tiny, "--json", tmp_path, code=1)
    assert "is a folder" in result.stderr
    assert "running" not in result.stderr


def test_startup_is_measured_in_processes_of_their_own(tiny, tmp_path):
    """The first is a warm-up; a process takes longer than what it constructs; one that fails says why."""
    report = tmp_path / "startup.json"
    result = run("bench", "startup", "--model", tiny, "--stage", "paged", "--max-model-len", 64, "--repeats", 1, "--json", report)
    found = json.loads(report.read_text())
    assert "Starting paged" in result.stdout
    (start,) = found["results"]
    assert 0 < start["construction"] < start["since_process_start"] == found["since_process_start_s"]
    refused = run("bench", "startup", "--model", tiny, "--max-model-len", 10**9, "--repeats", 1, code=1)
    assert "max_model_len" in refused.stderr


def test_demo_shows_text_the_ladder_and_where_to_go(tiny):
    """The text is shown once, then every stage; greedy tokens are the baseline's in each."""
    result = run("demo", "--model", tiny)
    assert result.stdout.count("What is the capital of France?") == 1
    table = result.stdout[result.stdout.index("The ladder") :]
    lines = {line.split()[0]: line.split()[-1] for line in table.splitlines() if line.strip()}
    assert {name: lines[name] for name in HERE} == dict.fromkeys(HERE, "yes")
    assert "Where to go next" in result.stdout
    assert f"model {tiny}" in result.stderr


def test_bench_throughput_compares_with_transformers(tiny, tmp_path):
    """Both sides give the same tokens, each repeat is kept, and the ratio is that of the medians."""
    report = tmp_path / "throughput.json"
    lengths = ["--prompt-len", "4:20", "--output-len", "2:9"]
    result = run("bench", "throughput", "--model", tiny, *lengths, "--requests", 5, "--batch-size", 2, "--repeats", 2, "--json", report)
    found = json.loads(report.read_text())
    assert [each["name"] for each in found["results"]] == ["batch", "alone"]
    for each in found["results"]:
        assert each["equal_share"] == 1
        assert each["ratio"] == pytest.approx(each["minfer"]["tokens_per_s"] / each["transformers"]["tokens_per_s"])
        assert len(each["minfer"]["repeats"]) == len(each["transformers"]["repeats"]) == len(each["workloads"]) == 2
    assert result.stdout.count("100%") == 2
    alone = run("bench", "throughput", "--model", tiny, *lengths, "--requests", 3, "--repeats", 1, "--no-baseline")
    assert [line.split()[2] for line in alone.stdout.splitlines() if line.strip()[:1].isdigit()] == ["–", "–"]


def test_bench_latency_measures_each_length(tiny, tmp_path):
    report = tmp_path / "latency.json"
    lengths = ["--prompt-len", 8, "--prompt-len", 40, "--output-len", 4]
    run("bench", "latency", "--model", tiny, *lengths, "--repeats", 2, "--json", report)
    results = json.loads(report.read_text())["results"]
    assert [each["prompt_tokens"] for each in results] == [8, 40]
    assert all(len(each["repeats"]["ttft_ms"]) == 2 and each["tpot_ms"] > 0 for each in results)


@pytest.mark.parametrize(("text", "code"), [("a:b", 2), ("16:", 2), ("1:2:3", 2), ("9:3", 1), ("0:4", 1), ("4:9999", 1)])
def test_a_bad_range_of_lengths_is_refused(tiny, text, code):
    """As a usage error where it is no range; by the workload where it is empty, or too long for the model."""
    run("bench", "throughput", "--model", tiny, "--prompt-len", text, "--no-baseline", code=code)
