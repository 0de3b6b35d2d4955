"""The fixed workloads, what a run of one counts, and the commands."""

from __future__ import annotations

import json

import pytest
from cli_runner import run
from hypothesis import given
from hypothesis import strategies as st

from minfer import dummy
from minfer.bench.run import Run, median_run, percentiles, run_workload, warm_up
from minfer.bench.throughput import repeat_workload
from minfer.bench.workload import NAMED, mixed, w1, w2
from minfer.cli.options import SHAPE_HELP, LLMOptions, with_shape
from minfer.errors import MinferError
from minfer.llm import LLM

SIZES = {"max_model_len": 128, "max_num_seqs": 4, "num_kv_blocks": 64}


@pytest.fixture(scope="module")
def llm():
    with LLM("dummy:tiny", **SIZES) as llm:
        yield llm


# Fixed workloads


def test_w1_is_the_benchmark_that_others_run():
    """Its totals, and its first ids and lengths, as one generator with seed 0 draws them."""
    workload = w1(151936)
    assert (len(workload.prompts), workload.temperature, workload.ignore_eos) == (256, 0.6, True)
    assert sum(len(prompt) for prompt in workload.prompts) == 142_827
    assert sum(workload.max_tokens) == 133_966
    assert (len(workload.prompts[0]), workload.prompts[0][:3]) == (964, [6311, 6890, 663])
    assert max(map(max, workload.prompts)) <= 10_000
    assert {params.temperature for params in workload.params()} == {0.6}
    with pytest.raises(MinferError, match="the model has 10000"):
        w1(10_000)


@given(st.sampled_from([320, 32_000, 151_936]))
def test_w2_has_the_same_lengths_for_every_model(vocab_size):
    workload = w2(vocab_size)
    assert sum(len(prompt) for prompt in workload.prompts) == 83_208
    assert sum(workload.max_tokens) == 72_877
    assert max(map(max, workload.prompts)) < vocab_size
    assert all(params.greedy and params.ignore_eos for params in workload.params())


@pytest.mark.parametrize("name", NAMED)
def test_a_fixed_workload_fits_its_limit(name):
    make, limit = NAMED[name]
    workload = make(32_000)
    assert max(len(prompt) + n for prompt, n in zip(workload.prompts, workload.max_tokens, strict=True)) <= limit


def test_no_run_finds_the_prompts_of_another_in_a_cache(llm):
    """Over a warm-up and the repeats, all first blocks differ; lengths, and the ids of the first repeat, are the workload's."""
    workload = w2(320).first(20)
    warm = [[token - 1 if token else 319 for token in prompt] for prompt in workload.prompts]
    runs = [warm, *(workload.shifted(i, 320).prompts for i in range(5))]
    blocks = [tuple(prompt[:16]) for prompts in runs for prompt in prompts]
    assert len(set(blocks)) == len(blocks)
    assert runs[1] == workload.prompts
    assert all([len(p) for p in prompts] == [len(p) for p in workload.prompts] for prompts in runs)
    assert warm_up(llm, workload).prompts == [prompt[:8] for prompt in warm[:2]]


def test_a_repeat_computes_its_prompts_anew(llm):
    """In an engine with a prefix cache, on a workload longer than a block."""
    hits = []
    generate = llm.generate
    try:
        llm.generate = lambda *args, **options: [
            hits.append(output.num_cached_tokens) or output for output in generate(*args, **options)
        ]
        runs = repeat_workload(llm, mixed(4, (40, 60), (2, 4), 320, 128), 3)
    finally:
        del llm.generate
    assert llm.stage.blocks.endswith("PrefixBlocks")
    assert len(runs) == 3
    assert set(hits) == {0}


# Runs


def test_a_run_counts_steps_and_the_time_of_later_tokens(llm):
    workload = mixed(3, (4, 8), (5, 5), 320, 128)
    run = run_workload(llm, workload)
    assert run.steps == 5
    assert run.preemptions == 0
    assert all(0 < 4 * later < run.seconds for later in run.later_token_s)
    facts = json.loads(json.dumps(run.describe(), allow_nan=False))
    assert set(facts["percentiles"]) == {"ttft_ms", "tpot_ms"}


def test_preemptions_are_counted():
    with LLM("dummy:tiny", **{**SIZES, "num_kv_blocks": 8}) as llm:
        run = run_workload(llm, mixed(4, (30, 30), (40, 40), 320, 128))
        assert run.preemptions == llm.stats().num_preemptions > 0


@given(st.lists(st.floats(0, 10), min_size=1, max_size=40))
def test_percentiles_are_in_order_and_in_milliseconds(seconds):
    p50, p90, p99 = percentiles(seconds).values()
    assert 1e3 * min(seconds) <= p50 <= p90 <= p99 <= 1e3 * max(seconds) * (1 + 1e-12)
    assert percentiles([0.001] * 3)["p90"] == pytest.approx(1)


def test_the_run_in_the_middle():
    runs = [Run(seconds, [[1] * 8]) for seconds in (4.0, 1.0, 2.0)]
    assert median_run(runs).seconds == 2.0
    assert median_run(runs[:2]).seconds == 4.0


# Commands


@pytest.mark.parametrize("arrival", [[], ["--arrival", "poisson", "--rate", 50]])
def test_bench_throughput_runs_a_fixed_workload(arrival, tmp_path):
    """The report has the workload, the stage, every repeat and their median, steps, preemptions and the time to start."""
    report = tmp_path / "w2.json"
    sizes = ["--max-num-seqs", 2, "--num-kv-blocks", 128, "--requests", 2, "--repeats", 2]
    run("bench", "throughput", "--shape", "tiny", "--workload", "w2", *sizes, *arrival, "--json", report)
    found = json.loads(report.read_text())
    assert (found["kind"], found["workload"], found["stage"], found["model"]) == ("workload", "w2", "cpu", "dummy:tiny")
    assert (found["options"]["max_model_len"], found["options"]["max_num_seqs"]) == (1024, 2)
    speeds = sorted(each["tokens_per_s"] for each in found["repeats"])
    assert len(speeds) == 2
    assert found["output_tok_s"] == pytest.approx(sum(speeds) / 2)
    assert all(each["output_tokens"] == found["requests"]["total_max_tokens"] for each in found["repeats"])
    assert found["steps"] >= max(found["requests"]["max_tokens"])
    assert found["preemptions"] == 0
    assert 0 < found["startup_s"]["construction"] < found["startup_s"]["since_process_start"]
    assert set(found) >= {"hardware", "versions", "commit"}
    assert ("itl_ms" in found["repeats"][0]["percentiles"]) == bool(arrival)


def test_mixed_requests_may_come_by_and_by():
    sizes = ["--prompt-len", "4:8", "--output-len", "2:4", "--requests", 3, "--repeats", 1, "--max-model-len", 64]
    assert "mixed, 3 requests, 100 a second" in run(
        "bench", "throughput", "--shape", "tiny", *sizes, "--arrival", "poisson", "--rate", 100
    ).stdout.replace("\n", " ")


def test_bench_latency_takes_a_shape(tmp_path):
    report = tmp_path / "latency.json"
    sizes = ["--prompt-len", 9, "--output-len", 3, "--repeats", 1, "--max-model-len", 64]
    run("bench", "latency", "--shape", "tiny", *sizes, "--json", report)
    found = json.loads(report.read_text())
    assert (found["model"], found["workload"], found["stage"]) == ("dummy:tiny", "latency", "cpu")


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["--rate", "5"], "go together", 2),
        (["--arrival", "poisson"], "go together", 2),
        (["--arrival", "poisson", "--rate", "-1", "--shape", "tiny"], "positive", 1),
        (["--workload", "w3"], "w3", 2),
        (["--workload", "w1", "--shape", "tiny", "--max-model-len", "99"], "the model has 320", 1),
        (["--shape", "huge"], "the shapes are tiny", 1),
        (["--shape", "tiny", "--model", "there"], "names the model already", 2),
    ],
)
def test_contradictions_are_refused(arguments, message, code):
    assert message in run("bench", "throughput", *arguments, code=code).stderr


def test_the_help_lists_every_shape():
    assert all(name in SHAPE_HELP for name in dummy.SHAPES)
    assert with_shape(LLMOptions(), "tiny").model == "dummy:tiny"
    assert with_shape(LLMOptions(model="x"), None).model == "x"
