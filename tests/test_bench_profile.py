"""Where a step's time goes: steady states, verbs, the profiler's events sorted out, and the floor."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from cli_runner import run
from engine_fixtures import MIXES
from hypothesis import given
from hypothesis import strategies as st

from minfer import dummy
from minfer.bench import breakdown, profile, steady
from minfer.bench.breakdown import break_down, kv_bytes, weights_read
from minfer.bench.profile import Recorder, activity, covered, gaps, profile_decode, time_decode
from minfer.bench.steady import all_decode, decoding, no_room, prefill
from minfer.bench.stopwatch import Stopwatch
from minfer.errors import MinferError
from minfer.hub import find_model
from minfer.llm import LLM
from minfer.model_config import ModelConfig
from minfer.stages import CHUNKED, HF
from minfer.testing.decoding import load

SIZES = {"max_model_len": 96, "max_num_seqs": 4, "num_kv_blocks": 24, "max_num_batched_tokens": 64}
MINE = [MIXES[name] for name in ("cpu", "cpu+ahead") if name in MIXES]  # a loop that waits, and one that runs ahead


@pytest.fixture(scope="module", params=MINE)
def llm(request):
    with LLM("dummy:tiny", stage=request.param, **SIZES) as llm:
        yield llm


# Steady states


@pytest.mark.parametrize("stage", [HF, CHUNKED, *MINE])
def test_every_step_is_a_decode_step_of_all(stage):
    """Each of so many steps gives one token to every sequence; afterwards the engine is empty."""
    with LLM("dummy:tiny", stage=stage, **SIZES) as llm:
        planned = []
        schedule = llm.engine.scheduler.schedule
        llm.engine.scheduler.schedule = lambda: planned.append(schedule()) or planned[-1]
        with decoding(llm, 3, 20, 9) as names:
            assert len(names) == 3
            del planned[:]
            for _ in range(9):
                assert llm.step() == []
        assert [[work.num_new for work in plan.work] for plan in planned] == [[1, 1, 1]] * 9
        assert not llm.has_unfinished()
        assert llm.stats().num_free_blocks == llm.stats().num_total_blocks


@given(st.integers(1, 5), st.integers(1, 60), st.integers(1, 60))
def test_room_is_what_the_numbers_say(batch, context, steps):
    """Rows, positions and K/V blocks must all suffice."""
    engine = SimpleNamespace(max_len=96, blocks=SimpleNamespace(block_size=16))
    fake = SimpleNamespace(config=SimpleNamespace(max_num_seqs=4), engine=engine, stats=lambda: SimpleNamespace(num_total_blocks=10))
    fits = batch <= 4 and context + steps <= 96 and batch * -(-(context + steps) // 16) <= 10
    assert (no_room(fake, batch, context, steps) is None) == fits


@pytest.mark.parametrize(("sizes", "message"), [((5, 9, 1), "max_num_seqs=4"), ((1, 90, 9), "make 99"), ((4, 90, 6), "24 K/V")])
def test_what_has_no_room_is_refused(llm, sizes, message, monkeypatch):
    if message == "24 K/V":
        monkeypatch.setattr(llm.engine.blocks, "block_size", 15)
        message = "28 K/V blocks, and there are 24"
    with pytest.raises(MinferError, match=message), decoding(llm, *sizes):
        pass
    assert not llm.has_unfinished()


def test_sequences_that_never_decode_side_by_side_are_reported(monkeypatch):
    """A scheduler that runs one at a time must not be waited for for ever."""
    with LLM("dummy:tiny", stage=HF, **SIZES) as llm:
        llm.engine.scheduler._free_rows[1:] = []
        with pytest.raises(MinferError, match="do not decode side by side"), decoding(llm, 2, 8, 2):
            pass
        assert not llm.has_unfinished()


def test_prompts_are_never_answered_from_the_cache(llm, monkeypatch):
    """No prompt comes twice, so that computing the same number of them again takes the same steps."""
    prompts, counts, add = [], [], llm.add_request
    monkeypatch.setattr(llm, "add_request", lambda *args, **more: prompts.append(args[1]) or add(*args, **more))
    for _ in range(3):
        before = llm.stats().num_steps
        prefill(llm, 3, 40)
        counts.append(llm.stats().num_steps - before)
    assert counts == [2] * 3  # 120 tokens, 64 a step
    assert not all_decode(llm, 3)
    with decoding(llm, 3, 20, 2):
        pass
    assert len({tuple(prompt[:16]) for prompt in prompts}) == len(prompts) == 12


# Verbs


def test_the_verbs_and_the_rest_make_the_whole_step(llm):
    with decoding(llm, 2, 8, 20), Stopwatch(llm) as watch:
        ms = 1e3 * steady.seconds_of(llm, 10)
    verbs = watch.per_step(10, ms)
    assert set(verbs) == {"schedule", "launch", "wait", "commit", "rest"}
    assert all(value > 0 for value in verbs.values())
    assert sum(verbs.values()) == pytest.approx(ms)
    assert verbs["launch"] == max(verbs.values())  # on a CPU the model runs there
    for part in (llm.engine.scheduler, llm.engine.executor):
        assert not {"schedule", "commit", "launch"} & set(vars(part)), "the parts must be as they were"


# Events

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda pair: (pair[0], sum(pair))), max_size=12).map(sorted)


@given(spans)
def test_covered_time_and_gaps_make_the_whole_span(intervals):
    busy = {at for first, last in intervals for at in range(first, last)}
    assert covered(intervals) == len(busy)
    if intervals:
        whole = max(last for _, last in intervals) - intervals[0][0]
        assert covered(intervals) + sum(gaps(intervals)) == whole
        assert all(gap > 0 for gap in gaps(intervals))


def event(name, start, length, cuda=False, cpu_us=0.0):
    kind = torch.autograd.DeviceType.CUDA if cuda else torch.autograd.DeviceType.CPU
    times = SimpleNamespace(start=start, end=start + length, elapsed_us=lambda: length)
    return SimpleNamespace(name=name, device_type=kind, time_range=times, self_cpu_time_total=cpu_us)


def test_events_are_sorted_by_mark_device_and_name():
    """Two steps under one mark: kernels of others, and the mark's own shadow on the device, do not count."""
    mine = [
        event("minfer: decode", 100, 100),
        event("minfer: decode", 100, 90, cuda=True),
        event("cudaGraphLaunch", 101, 2),
        event("cudaLaunchKernelExC", 110, 2),
        event("aten::add", 105, 5, cpu_us=4),
        event("gemm", 110, 20, cuda=True),
        event("norm", 140, 10, cuda=True),
        event("gemm", 145, 25, cuda=True),
    ]
    others = [event("minfer: prefill", 300, 50), event("gemm", 310, 20, cuda=True), event("cudaLaunchKernel", 301, 1)]
    found = activity([*others, *mine], "decode", 2)
    assert (found.launches, found.device_ms, found.gaps, found.gap_us) == (1, 0.025, 0.5, 5)
    assert [(kernel.name, kernel.count, kernel.microseconds) for kernel in found.kernels] == [("gemm", 1, 22.5), ("norm", 0.5, 5)]
    assert sum(kernel.share for kernel in found.kernels) == pytest.approx(1)
    on_cpu = activity([each for each in mine if each.device_type is not torch.autograd.DeviceType.CUDA], "decode", 2)
    assert on_cpu.device_ms == 0
    assert ("aten::add", 0.5, 2) in [(kernel.name, kernel.count, kernel.microseconds) for kernel in on_cpu.kernels]


def test_a_recording_counts_the_steps_under_each_mark(llm, tmp_path):
    trace = tmp_path / "trace.json"
    with Recorder(llm, trace) as recorder:
        with recorder.mark("one"):
            prefill(llm, 1, 8)
        with recorder.mark("two"):
            prefill(llm, 3, 40)
    assert recorder.steps == {"one": 1, "two": 2}
    assert {"minfer: one", "minfer: two"} <= {each.get("name") for each in json.loads(trace.read_text())["traceEvents"]}
    products = [sum(kernel.count for kernel in recorder.activities[name].kernels if "linear" in kernel.name) for name in ("one", "two")]
    assert products[0] == products[1] > 0


def test_decode_steps_are_timed_before_they_are_profiled(llm):
    timed = time_decode(llm, 2)
    assert (timed.batch, timed.launches_per_step, timed.gpu_busy) == (2, None, None)
    seen = profile_decode(llm, timed)
    assert (seen.ms_per_step, seen.launches_per_step) == (timed.ms_per_step, 0)
    assert time_decode(llm, 5) is None


# The floor


@pytest.mark.parametrize("kind", [{}, {"tie_word_embeddings": False}])
def test_a_step_reads_every_weight_but_the_embeddings(kind, monkeypatch):
    """Counted on the model itself; tied embeddings are read as the head."""
    monkeypatch.setitem(dummy.SHAPES, "other", {**dummy.SHAPES["tiny"], **kind, "architectures": ["LlamaForCausalLM"]})
    path = find_model("dummy:other")
    decoder = load(path)
    looked_up = 0 if decoder.config.tie_word_embeddings else decoder.embed_tokens.weight.numel()
    assert weights_read(ModelConfig.load(path)) == sum(weight.numel() for weight in decoder.parameters()) - looked_up


def test_a_window_bounds_what_a_step_reads():
    model = SimpleNamespace(windows=(None, 10, 99), num_layers=3, kv_bytes_per_token=lambda dtype: 12)
    assert kv_bytes(model, torch.float32, 40) == (40 + 10 + 40) * 4


def test_a_breakdown_adds_up(llm, tmp_path, monkeypatch):
    monkeypatch.setattr(breakdown, "rate_of_copy", lambda device: 1e9)
    result = break_down(llm, 2, 20, 4)
    facts = json.loads(json.dumps(result.describe(), allow_nan=False))
    assert facts["floor_ms"] == pytest.approx((facts["weight_bytes"] + facts["kv_bytes"]) / 1e6)
    assert facts["share_of_floor"] == pytest.approx(facts["floor_ms"] / facts["phases"][0]["ms_per_step"])
    assert facts["kv_bytes"] == 2 * facts["context"] * llm.config.model.kv_bytes_per_token(torch.float32)
    decode, prefilled = facts["phases"]
    assert (decode["sequences"], decode["tokens"], prefilled["sequences"], prefilled["tokens"]) == (2, 2, 2, 40)
    assert 20 + profile.WARM < facts["context"] <= 20 + profile.WARM + 4
    verbs = [verb for verb, _, _ in facts["timeline"]["host"]]
    assert {verbs.count(verb) for verb in ("schedule", "launch", "wait", "commit")} <= {1, 2, 3}
    assert facts["timeline"]["host"][0][:2] == ["schedule", 0.0]
    assert breakdown.rate_of_copy(torch.device("cpu")) > 0


# The command


def test_bench_profile_shows_the_step_and_writes_a_trace(tmp_path):
    trace, report = tmp_path / "new" / "trace.json", tmp_path / "profile.json"
    sizes = ["--batch", 2, "--context", 20, "--steps", 3, "--max-num-seqs", 2, "--max-model-len", 64]
    shown = run("bench", "profile", "--shape", "tiny", *sizes, "--trace", trace, "--json", report).stdout
    titles = ("Operators on the CPU of a decode step", "Operators on the CPU of a prefill step")
    assert all(text in shown for text in ("schedule", "the floor is", *titles, "others"))
    found = json.loads(report.read_text())
    assert (found["kind"], found["stage"], found["model"]) == ("profile", "cpu", "dummy:tiny")
    assert json.loads(trace.read_text())["traceEvents"]
    assert "max_num_seqs=2" in run("bench", "profile", "--shape", "tiny", *sizes, "--batch", 3, code=1).stderr
