"""`minfer trace`, as a user types it."""

from __future__ import annotations

import json

import pytest
from cli_runner import run, tiny_model

from minfer import LLM, SamplingParams
from minfer.errors import MinferError
from minfer.trace import Trace, record, show


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A trace made by the command, of a tiny model's own texts."""
    folder = tmp_path_factory.mktemp("trace")
    model = tiny_model(folder / "model")
    out = folder / "t.json.gz"
    ended = run(
        "trace", "--model", model, "--stage", "chunked", "--block-size", 4, "--num-kv-blocks", 20, "--max-tokens", 5, "--n", 2,
        "--out", out, "one prompt", "another one",
    )  # fmt: skip
    assert f"minfer trace view {out}" in ended.stderr
    return out


def test_prompts_are_recorded(recorded):
    trace = Trace.load(recorded)
    assert [each["prompt"] for each in trace.sequences.values()] == ["one prompt"] * 2 + ["another one"] * 2
    assert trace.engine["stage"] == "chunked"
    assert trace.num_steps >= 5
    assert trace.content["texts"]


def test_the_player_is_made(recorded, tmp_path):
    out = tmp_path / "player.html"
    assert str(out) in run("trace", "view", recorded, "--out", out).stderr
    assert "minfer-page" in out.read_text()


def test_a_students_part_beside_the_reference(recorded, tmp_path):
    """A scheduler of one's own that takes the last prompt first: the first plan that differs is named."""
    mine = tmp_path / "mine.py"
    mine.write_text("def policy(seq, context):\n    return (-seq.seq_id,)\n")
    model = tiny_model(tmp_path / "model")
    out = tmp_path / "mine.json"
    sizes = ["--block-size", 4, "--num-kv-blocks", 20, "--max-tokens", 5, "--n", 2, "--max-num-seqs", 1]
    parts = ["--stage", "chunked", "--swap", f"policy={mine}:policy"]
    run("trace", "--model", model, *parts, *sizes, "--out", out, "one prompt", "another one")
    html = tmp_path / "two.html"
    said = run("trace", "view", out, "--compare", recorded, "--out", html).stderr
    assert "the first difference: the plan of step 0: sequence 2" in said
    assert f"policy={mine}:policy" in html.read_text()
    assert "agree" in run("trace", "view", out, "--compare", out, "--out", html).stderr


def test_the_export_is_made(recorded, tmp_path):
    out = tmp_path / "chrome.json"
    run("trace", "export", recorded, "--out", out)
    assert json.loads(out.read_text())["traceEvents"]


def test_a_mixed_workload(tmp_path):
    out = tmp_path / "t.json"
    run("trace", "record", "--shape", "tiny", "--workload", "mixed", "--requests", 5, "--max-model-len", 64, "--out", out)
    assert len(Trace.load(out).sequences) == 5


def test_mistakes_are_told(recorded, tmp_path):
    assert "there is no prompt" in run("trace", "--shape", "tiny", code=2).stderr
    assert "give one of them" in run("trace", "--workload", "mixed", "a prompt", code=2).stderr
    nowhere = tmp_path / "no" / "t.json"
    assert "does not exist" in run("trace", "--shape", "tiny", "--workload", "mixed", "--out", nowhere, code=1).stderr
    assert "cannot be read" in run("trace", "view", tmp_path / "none.json", code=1).stderr
    assert "cannot be written" in run("trace", "view", recorded, "--out", tmp_path, code=1).stderr
    assert "cannot be written" in run("trace", "export", recorded, "--out", tmp_path, code=1).stderr
    for command in ([], ["view"], ["record"]):
        assert "--out" in run("trace", *command, "--help").stdout or command == []


def test_llm_writes_its_trace_when_it_is_closed(tmp_path):
    path = tmp_path / "t.json"
    with LLM("dummy:tiny", stage="chunked", max_model_len=64, trace=path) as llm:
        llm.generate([[1, 2, 3]], SamplingParams(max_tokens=4, ignore_eos=True), progress=False)
        assert show(llm).num_steps == 4
        assert not path.exists()
    assert Trace.load(path).num_steps == 4
    llm.close()


def test_llm_keeps_a_trace_in_memory_or_none_at_all(tmp_path):
    with LLM("dummy:tiny", stage="chunked", max_model_len=64, trace=True) as llm:
        llm.generate([[1, 2, 3]], SamplingParams(max_tokens=4, ignore_eos=True), progress=False)
        with pytest.raises(MinferError, match="recorded already"):
            record(llm)
    assert show(llm.recording).num_steps == 4
    with LLM("dummy:tiny", stage="chunked", max_model_len=64) as llm:
        assert llm.recording is None
        assert "schedule" not in vars(llm.engine.scheduler)
        with pytest.raises(MinferError, match="not being recorded"):
            show(llm)
    with pytest.raises(MinferError, match="does not exist"):
        LLM("no/such/model", trace=tmp_path / "no" / "t.json")
