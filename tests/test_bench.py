"""The benchmarks: workloads, runs, and both sides of a comparison."""

from __future__ import annotations

import gc
import itertools
import json
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cli_runner import tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.bench import ladder
from minfer.bench.hf_generate import HFGenerate
from minfer.bench.latency import latency
from minfer.bench.run import Run, run_workload, warm_up
from minfer.bench.throughput import Contest, throughput
from minfer.bench.workload import Workload, mixed
from minfer.cli.ladder import equality, row
from minfer.engine import Stats
from minfer.errors import MinferError
from minfer.llm import LLM
from minfer.stages import CHUNKED, CPU, HF, LADDER, PAGED


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    return Path(tiny_model(tmp_path_factory.mktemp("tiny")))


# Workloads

ranges = st.tuples(st.integers(1, 40), st.integers(0, 40)).map(lambda pair: (pair[0], sum(pair)))


@settings(max_examples=50)
@given(st.integers(1, 20), ranges, ranges, st.integers(1, 500), st.integers(-5, 5))
def test_a_workload_is_what_its_arguments_say(requests, prompt_len, output_len, vocab_size, seed):
    """Lengths and ids lie within their ranges, and the same arguments give the same workload."""
    arguments = (requests, prompt_len, output_len, vocab_size, prompt_len[1] + output_len[1], seed)
    workload = mixed(*arguments)
    assert len(workload.prompts) == len(workload.max_tokens) == requests
    assert all(prompt_len[0] <= len(prompt) <= prompt_len[1] for prompt in workload.prompts)
    assert all(output_len[0] <= n <= output_len[1] for n in workload.max_tokens)
    assert all(0 <= token < vocab_size for prompt in workload.prompts for token in prompt)
    assert workload == mixed(*arguments)
    assert [params.max_tokens for params in workload.params()] == workload.max_tokens
    assert all(params.greedy and params.ignore_eos for params in workload.params())
    assert json.loads(json.dumps(workload.describe()))["prompt_tokens"] == [len(prompt) for prompt in workload.prompts]


def test_another_seed_gives_other_prompts():
    """No prefix of one repeat's prompts is found in the cache by the next repeat."""
    first = [tuple(prompt[:4]) for seed in range(20) for prompt in mixed(16, (4, 9), (1, 2), 300, 20, seed).prompts]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize(
    ("requests", "prompt_len", "output_len", "message"),
    [(0, (1, 2), (1, 2), "requests=0"), (1, (3, 2), (1, 2), "prompt lengths 3:2"), (1, (1, 2), (0, 2), "output lengths 0:2"),
     (1, (1, 9), (1, 9), "make 18, and the limit is 17")],
)  # fmt: skip
def test_an_impossible_workload_is_refused(requests, prompt_len, output_len, message):
    with pytest.raises(MinferError, match=message):
        mixed(requests, prompt_len, output_len, 100, 17)


# Runs


def test_a_run_counts_what_the_requests_got():
    run = Run(2.0, [[1, 2, 3], [4]], first_token_s=[0.5, 1.5])
    assert (run.output_tokens, run.tokens_per_s, run.ttft_ms) == (4, 2.0, 1000.0)
    assert run.num_equal(Run(1.0, [[1, 2, 3], [5]])) == 1
    assert Run(1.0, [[1]]).ttft_ms is None
    with pytest.raises(ValueError, match="zip"):
        run.num_equal(Run(1.0, [[1, 2, 3]]))


def test_a_warm_up_leaves_nothing_for_the_timed_run():
    """Its prompts begin with other ids. On a CPU it is short; on a GPU it has every shape that is timed after it."""
    workload = mixed(5, (20, 30), (9, 12), 320, 256)
    for device, requests in (("cpu", 2), ("cuda", 5)):
        config = SimpleNamespace(device=torch.device(device), model=SimpleNamespace(vocab_size=320))
        first = warm_up(SimpleNamespace(config=config), workload)
        assert len(first.prompts) == requests
        assert all(mine[0] != other[0] for mine, other in zip(first.prompts, workload.prompts, strict=False))
        assert all(0 <= token < 320 for prompt in first.prompts for token in prompt)
        lengths = [len(prompt) for prompt in first.prompts], first.max_tokens
        assert lengths == (([8] * 2, [8] * 2) if device == "cpu" else ([len(p) for p in workload.prompts], workload.max_tokens))


def test_both_sides_do_the_same_work(tiny):
    """transformers in padded batches of any size gives the tokens that minfer gives, and as many as each request asked for."""
    workload = mixed(5, (2, 30), (1, 12), 320, 256, seed=3)
    with LLM(str(tiny)) as llm:
        ours = run_workload(llm, workload)
    assert [len(ids) for ids in ours.token_ids] == workload.max_tokens
    assert all(first > 0 for first in ours.first_token_s)
    theirs = HFGenerate(tiny, torch.float32, torch.device("cpu"))
    for batch_size in (1, 2, 8):
        assert theirs.run(workload, batch_size).token_ids == ours.token_ids


def test_the_other_side_ignores_the_end_of_sequence(tiny, tmp_path):
    """Requests of a benchmark run to their length on both sides, also where the greedy tokens contain the model's EOS."""
    workload = mixed(3, (4, 8), (10, 10), 320, 256, seed=1)
    expected = HFGenerate(tiny, torch.float32, torch.device("cpu")).run(workload, 3).token_ids
    for path in tiny.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for name in ("config.json", "generation_config.json"):
        settings = json.loads((tmp_path / name).read_text())
        (tmp_path / name).write_text(json.dumps({**settings, "eos_token_id": expected[0][2]}))
    assert HFGenerate(tmp_path, torch.float32, torch.device("cpu")).run(workload, 3).token_ids == expected


# The ladder


def test_swaps_names_the_difference():
    """The one slot of a stage of the ladder; for a mix, those in which it differs from the stage that it is closest to."""
    assert ladder.swaps(HF) == (None, None)
    for before, stage in itertools.pairwise(LADDER):
        assert ladder.swaps(stage) == (stage.differs(before)[0], stage.parts()[stage.differs(before)[0]])
    assert ladder.swaps(CPU)[0].split(", ") == CPU.differs(CHUNKED)
    mine = PAGED.with_parts("mine", norm="a:b", sample="c:d")
    assert ladder.swaps(mine) == ("norm, sample", "a:b, c:d")


def test_runnable_leaves_out_what_the_machine_lacks(monkeypatch):
    """With the reason; and on a CPU the mix made for it is compared as well."""
    monkeypatch.setattr(ladder, "why_not", lambda stage, device: "no luck" if stage.name == "paged" else None)
    stages, refused = ladder.runnable("cpu")
    assert [stage.name for stage in stages] == [stage.name for stage in LADDER if stage is not PAGED] + ["cpu"]
    assert refused == {"paged": "no luck"}


def test_one_engine_is_alive_at_a_time_and_the_baseline_goes_first(tiny, monkeypatch):
    """Before an engine is built, the model of the one before has been given back."""
    engines, models = [], []

    def build(*args, **kwargs):
        gc.collect()
        assert not any(model() for model in models)
        llm = LLM(*args, **kwargs)
        engines.append(llm)  # alive, so that the model is gone only because it was closed
        models.append(weakref.ref(llm.engine.executor.model))
        return llm

    monkeypatch.setattr(ladder, "LLM", build)
    workload = mixed(2, (4, 8), (2, 4), 320, 64)
    seen = []
    results = ladder.climb(tiny, [PAGED, CPU, HF], [workload], {"max_model_len": 64, "max_num_seqs": 2}, announce=seen.append)
    assert seen == [result.stage.name for result in results] == ["hf", "paged", "cpu"]
    assert len(models) == 3
    assert [result.all_equal for result in results] == [True] * 3


def test_a_part_that_changes_the_tokens_is_caught(tiny, tmp_path):
    """The last column of the ladder is a real comparison: a wrong part in a later stage turns it to no."""
    (tmp_path / "worst.py").write_text("def sample(logits, batch):\n    return logits.argmin(dim=-1)\n")
    wrong = CHUNKED.with_parts("wrong", sample=f"{tmp_path / 'worst.py'}:sample")
    workload = mixed(3, (4, 8), (4, 4), 320, 64)
    options = {"max_model_len": 64, "max_num_seqs": 2}
    right, result = ladder.climb(tiny, [HF, wrong], [workload], options)
    assert (right.all_equal, right.equal) == (True, [3])
    assert (result.all_equal, result.equal) == (False, [0])
    described = ladder.with_ratios([right.describe(), result.describe()])
    assert [row(facts, [])[-1] for facts in described] == ["yes", "no"]
    assert equality(replace(result, dtype=torch.bfloat16).describe()) == "0 of 3"
    assert result.describe()["tokens_equal_baseline"] is False


def test_a_swap_holds_for_every_stage(tiny, tmp_path):
    """A reader's own part is compared in all stages, the baseline included."""
    (tmp_path / "worst.py").write_text("def sample(logits, batch):\n    return logits.argmin(dim=-1)\n")
    swap = {"sample": f"{tmp_path / 'worst.py'}:sample"}
    workload = mixed(2, (4, 8), (4, 4), 320, 64)
    options = {"max_model_len": 64, "max_num_seqs": 2}
    plain, swapped = (ladder.climb(tiny, [HF, CHUNKED], [workload], options, each) for each in ({}, swap))
    assert [result.stage.sample for result in swapped] == [swap["sample"]] * 2
    assert [result.all_equal for result in swapped] == [True] * 2
    assert plain[0].runs[0].token_ids != swapped[0].runs[0].token_ids


def test_a_stage_reports_medians_and_its_memory():
    runs = [Run(seconds, [[1] * 8], first_token_s=[seconds / 2]) for seconds in (1.0, 2.0, 8.0)]
    stats = Stats(5, 1, 3 * 2**20, 0.25, 7, 7)
    facts = ladder.StageResult(PAGED, torch.float32, 1.5, runs, stats, [1, 1, 0]).describe()
    assert (facts["tokens_per_s"], facts["ttft_ms"]) == (4.0, 1000.0)
    assert (facts["peak_kv_mib"], facts["kv_wasted_percent"], facts["preemptions"]) == (3.0, 25.0, 1)
    assert [each["equal_requests"] for each in facts["repeats"]] == [1, 1, 0]
    assert facts["tokens_equal_baseline"] is False


# Throughput and latency


def test_a_contest_compares_medians():
    workloads = [Workload("batch", [[1]], [4])] * 3
    ours = [Run(seconds, [[1, 2, 3, 4]], first_token_s=[seconds]) for seconds in (1.0, 2.0, 4.0)]
    theirs = [Run(8.0, [[1, 2, 3, 4]]), Run(4.0, [[1, 2, 3, 5]]), Run(2.0, [[1, 2, 3, 4]])]
    contest = Contest("batch", workloads, ours, theirs)
    assert (contest.our_speed, contest.their_speed, contest.ratio) == (2.0, 1.0, 2.0)
    assert (contest.ttft_ms, contest.equal_share) == (2000.0, pytest.approx(2 / 3))
    without = Contest("batch", workloads, ours)
    assert (without.their_speed, without.ratio, without.equal_share) == (None, None, None)
    assert without.describe()["transformers"] is None


def test_throughput_takes_turns_on_the_same_work(tiny, monkeypatch):
    """In each repeat both sides run the very same workload, and no repeat runs another's."""
    seen = []
    monkeypatch.setattr("minfer.bench.throughput.run_workload", lambda llm, w: seen.append(("ours", w)) or run_workload(llm, w))
    theirs = HFGenerate.run
    monkeypatch.setattr(HFGenerate, "run", lambda self, w, size: seen.append(("theirs", w)) or theirs(self, w, size))
    with LLM(str(tiny)) as llm:
        contests = throughput(llm, 3, (4, 8), (2, 4), repeats=2, seed=0, batch_size=2)
    timed = [entry for entry in seen if entry[1].name != "warm-up"]
    assert [side for side, _ in timed] == ["ours", "theirs"] * 4
    assert all(mine == other for (_, mine), (_, other) in zip(timed[::2], timed[1::2], strict=True))
    assert len({str(workload.prompts) for _, workload in timed}) == 4
    assert [contest.equal_share for contest in contests] == [1, 1]


def test_latency_splits_a_request_at_its_first_token(tiny):
    """First token plus the later ones make the whole request."""
    with LLM(str(tiny)) as llm:
        (result,) = latency(llm, [12], 5, 3, 0)
    assert len(result.ttft_ms) == len(result.tpot_ms) == 3
    assert all(value > 0 for value in result.ttft_ms + result.tpot_ms)
    assert sorted(result.ttft_ms)[1] == result.describe()["ttft_ms"]
