"""The ladder as a long climb: kept after each stage, resumed, profiled last, on fixed workloads, and as a picture and a table."""

from __future__ import annotations

import importlib.util
import json
import sys

import pytest
import reports
import torch
from cli_runner import run

from minfer.bench import ladder, plot
from minfer.bench.run import Run
from minfer.bench.workload import mixed
from minfer.cli.ladder import row, show
from minfer.engine import Stats
from minfer.hub import find_model
from minfer.runner.eager import EagerRunner
from minfer.stages import CHUNKED, HF, PAGED, STAGES

TINY = find_model("dummy:tiny")
OPTIONS = {"max_model_len": 64, "max_num_seqs": 2}
W2 = ["--shape", "tiny", "--workload", "w2", "--requests", 2, "--repeats", 1, "--max-num-seqs", 2]


def test_all_that_is_known_is_kept_after_each_stage():
    """So that a climb that is cut short has not been in vain."""
    seen = []
    results = ladder.climb(TINY, [PAGED, HF], [mixed(2, (4, 8), (2, 4), 320, 64)], OPTIONS, keep=lambda r: seen.append(list(r)))
    assert [[result.stage.name for result in each] for each in seen] == [["hf"], ["hf", "paged"]]
    assert seen[-1] == results


def test_decode_steps_are_profiled_when_all_stages_have_run(monkeypatch):
    """PyTorch's profiler slows what runs after it, so it comes last; what was timed before stays."""
    calls = []
    monkeypatch.setattr(ladder, "batches_to_time", lambda llm: [1, 2])
    timed, profiled = ladder.time_decode, ladder.profile_decode
    monkeypatch.setattr(ladder, "time_decode", lambda llm, n: calls.append(("time", llm.stage.name, n)) or timed(llm, n))
    monkeypatch.setattr(ladder, "profile_decode", lambda llm, t: calls.append(("profile", llm.stage.name, t.batch)) or profiled(llm, t))
    results = ladder.climb(TINY, [PAGED, CHUNKED], [mixed(2, (4, 8), (2, 4), 320, 64)], OPTIONS)
    described, seen = [result.describe() for result in results], []
    profiled_stages = ladder.profile_stages(TINY, described, OPTIONS, announce=lambda name: None, keep=seen.append)
    stages = [(name, batch) for name in ("paged", "chunked") for batch in (1, 2)]
    assert calls == [("time", *each) for each in stages] + [("profile", *each) for each in stages]
    assert seen[-1] == profiled_stages
    for stage in profiled_stages:
        assert [(step["batch"], step["launches_per_step"]) for step in stage["decode"]] == [(1, 0), (2, 0)]
        assert all(step["ms_per_step"] > 0 for step in stage["decode"])
    calls.clear()
    assert ladder.profile_stages(TINY, profiled_stages, OPTIONS, announce=lambda name: None, keep=seen.append) == profiled_stages
    assert not calls  # a resumed climb profiles what is not profiled yet


def test_slow_stages_may_run_fewer_requests():
    """Stages whose kernels the host launches one by one run the first requests only; what cannot be compared is not."""
    graphs = PAGED.with_parts("like-graphs", runner="test_bench_ladder:Fast")
    workload = mixed(4, (4, 8), (2, 4), 320, 64)
    results = ladder.climb(TINY, [HF, PAGED, graphs], [workload], OPTIONS, slow_requests=3)
    assert [len(result.runs[0].token_ids) for result in results] == [3, 3, 4]
    assert [result.all_equal for result in results] == [True, True, None]
    assert [result.describe()["requests"] for result in results] == [3, 3, 4]


Fast = EagerRunner  # a runner by another name


def described(name: str, speed: float, **others) -> dict:
    """A stage of a report."""
    stats = Stats(5, 0, 2**20, 0.1, 7, 7)
    runs = [Run(1.0, [[1] * round(speed)], first_token_s=[0.5])]
    return {**ladder.StageResult(STAGES[name], torch.bfloat16, 1.0, runs, stats, None).describe(), **others}


def test_ratios_are_to_the_baseline_and_to_the_stage_before():
    stages = ladder.with_ratios([described("hf", 10), described("paged", 20), described("chunked", 50)])
    assert [stage["times_baseline"] for stage in stages] == [1, 2, 5]
    assert [stage["times_before"] for stage in stages] == [None, 2, 2.5]
    assert [stage["times_baseline"] for stage in ladder.with_ratios(stages[1:])] == [None, None]
    assert ladder.with_ratios([]) == []


def test_the_table_shows_decode_steps_profiled_or_only_timed(capsys):
    step = {"batch": 1, "ms_per_step": 2.5, "launches_per_step": 7.0, "gpu_busy": 0.5}
    stages = ladder.with_ratios([
        described("hf", 10, decode=[step, {**step, "batch": 8}]),
        described("paged", 20, decode=[{**step, "launches_per_step": None, "gpu_busy": None}]),
    ])  # fmt: skip
    assert row(stages[0], [1, 8])[-7:-1] == ["2.50", "7", "50"] * 2
    assert row(stages[1], [1, 8])[-7:-1] == ["2.50", None, None, None, None, None]
    show(stages, [])
    assert "batch 8" in " ".join(capsys.readouterr().out.split())


def test_a_resumed_climb_runs_what_is_missing(tmp_path):
    """The report of both together has the stages in the ladder's order; one of something else is refused."""
    report = tmp_path / "ladder.json"
    run("ladder", *W2, "--stages", "hf,chunked", "--json", report)
    before = json.loads(report.read_text())
    assert (before["workload"], before["options"]["max_model_len"], before["workloads"][0]["name"]) == ("w2", 1024, "w2")
    result = run("ladder", *W2, "--stages", "hf,paged,chunked", "--json", report, "--resume")
    assert result.stderr.splitlines()[0] == "running paged"
    assert "running chunked" not in result.stderr
    found = json.loads(report.read_text())
    baseline, paged, chunked = found["stages"]
    assert [stage["name"] for stage in found["stages"]] == ["hf", "paged", "chunked"]
    assert baseline == before["stages"][0]
    assert chunked == {**before["stages"][1], "times_before": pytest.approx(chunked["output_tok_s"] / paged["output_tok_s"])}
    assert paged["tokens_equal_baseline"] is True  # the baseline's tokens are known from the first climb
    other = run("ladder", *W2, "--max-num-seqs", 1, "--stages", "paged", "--json", report, "--resume", code=2)
    assert "another" in other.stderr
    assert "--json" in run("ladder", *W2, "--resume", code=2).stderr
    run("ladder", *W2, "--stages", "hf,paged,chunked", "--json", report, "--resume")
    assert json.loads(report.read_text()) == found


def test_repeats_of_a_fixed_workload_have_its_lengths(tmp_path):
    report = tmp_path / "ladder.json"
    run("ladder", *W2, "--repeats", 2, "--stages", "chunked", "--json", report)
    first, second = json.loads(report.read_text())["workloads"]
    assert first == second
    assert first["total_max_tokens"] == sum(first["max_tokens"])


# The picture


def test_a_plot_without_matplotlib_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("ladder", *W2, "--plot", tmp_path / "ladder.svg", code=1)
    assert "pip install matplotlib" in result.stderr
    assert "running" not in result.stderr


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_the_picture_names_every_stage_and_its_speed(tmp_path):
    stages = ladder.with_ratios([described("hf", 800), described("paged", 1600), described("chunked", 41000)])
    plot.plot_ladder(stages, "a title", tmp_path / "ladder.svg")
    text = (tmp_path / "ladder.svg").read_text()
    assert all(word in text for word in ("<!-- hf", "<!-- paged", "<!-- chunked", "41,000", "(51.2 ×)", "a title"))
    plot.plot_ladder(stages[:1], "one", tmp_path / "one.png")


# The README's table


def lines_of(report: dict) -> list[str]:
    """The table that pages show of it."""
    return reports.WRITERS[report["kind"]](report).markdown().splitlines()


def test_the_readme_table_has_ratios_and_says_where_fewer_requests_ran():
    decode = [{"batch": 1, "ms_per_step": 2.5, "launches_per_step": 7.0, "gpu_busy": 0.5}]
    stages = [described("hf", 10, requests=64, decode=decode), described("paged", 20, requests=256, decode=decode)]
    hardware = {"gpus": [{"name": "a GPU"}]}
    report = {"kind": "ladder", "stages": stages, "model": "dummy:tiny", "hardware": hardware, "commit": "0123456789", "workload": "w2"}
    report |= {"versions": {"torch": "2", "transformers": "5"}, "options": {"max_num_seqs": 64}}
    lines = lines_of(report)
    assert lines[2].startswith("| `hf` (64 requests) | 10 | 1.00 | ")
    assert lines[3].startswith("| `paged` | 20 | 2.00 | 2.00 | ")
    assert len({line.count("|") for line in lines[:4]}) == 1
    assert "workload `w2`, 64 sequences at once" in lines[-1]
    (alone,) = [line for line in lines_of({**report, "stages": stages[1:]}) if "`paged`" in line]
    assert alone.startswith("| `paged` | 20 | 500 | ")


def test_workloads_and_latencies_have_tables_too(tmp_path):
    """Written from what the commands report."""
    sizes = ["--repeats", 1, "--json", tmp_path / "r.json"]
    run("bench", "throughput", "--shape", "tiny", "--workload", "w2", "--requests", 1, "--max-num-seqs", 2, *sizes)
    report = json.loads((tmp_path / "r.json").read_text())
    lines = lines_of(report)
    assert lines[2].startswith(f"| `w2` | 2 | {report['output_tok_s']:.0f} | ")
    assert len({line.count("|") for line in lines[:3]}) == 1
    run("bench", "latency", "--shape", "tiny", "--prompt-len", 9, "--output-len", 2, "--max-model-len", 64, *sizes)
    report = json.loads((tmp_path / "r.json").read_text())
    assert lines_of(report)[2].startswith("| 9 | ")
