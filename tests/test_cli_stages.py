"""`minfer stages`, `minfer pull` and `minfer doctor`: what there is, and what this machine can run."""

from __future__ import annotations

import itertools
import json

import pytest
from cli_runner import failing, run, tiny_model

from minfer import STAGES
from minfer.cli import doctor as doctor_module
from minfer.cli.stages import parts_of
from minfer.stages import LADDER


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def test_stages_json_describes_every_stage():
    """The ladder in order, each with the one slot that it swaps, and the part in every slot."""
    found = json.loads(run("stages", "--json").stdout)
    assert list(found) == ["stages"]
    rows = found["stages"]
    assert [row["name"] for row in rows] == list(STAGES)
    assert (rows[0]["swaps"], rows[0]["part"]) == (None, None)
    for row in rows:
        assert set(row) == {"name", "swaps", "part", "runs_here", "why_not", "parts"}
        assert row["parts"] == STAGES[row["name"]].parts()
        assert row["runs_here"] == (row["why_not"] is None)
    for before, row in itertools.pairwise(rows[: len(LADDER)]):
        assert row["parts"] == {**before["parts"], row["swaps"]: row["part"]}


def test_stages_say_what_a_machine_lacks(monkeypatch, tmp_path):
    """A stage whose part needs a GPU is shown on a machine without one, and is not imported."""
    (tmp_path / "mine.py").write_text('raise RuntimeError("imported")\nneeds = {"cuda"}\n')
    stage = LADDER[-1].with_parts("mine", norm=f"{tmp_path / 'mine.py'}:norm")
    monkeypatch.setattr("minfer.resolve.machine", frozenset)
    monkeypatch.setattr("minfer.cli.stages.STAGES", {**STAGES, "mine": stage})
    row = json.loads(run("stages", "--json").stdout)["stages"][-1]
    assert (row["name"], row["swaps"], row["runs_here"]) == ("mine", "norm", False)
    assert "NVIDIA GPU" in row["why_not"]


def test_what_a_machine_lacks_is_said_once_and_not_imported(monkeypatch):
    """On a machine with nothing, parts that need something are named by what they lack; those of the ladder stand in its table only."""
    monkeypatch.setattr("minfer.resolve.machine", frozenset)
    monkeypatch.setattr("minfer.cli.stages.parts_of", lambda slot, module: [] if "onednn" not in module else pytest.fail("imported"))
    table = run("stages").stdout
    assert table.count("onednn: a PyTorch built with oneDNN") == 1
    ladder, others = table.split("off the ladder")
    assert [line.split()[-2:] for line in ladder.splitlines() if line.split()[:1] == ["cpu-torch"]] == [["no", "onednn"]]
    assert [line.split() for line in others.splitlines() if "minfer.linear.onednn" in line] == [
        ["linear", "minfer.linear.onednn:linear", "no", "onednn"]
    ]
    used = {part for stage in LADDER for part in stage.parts().values()}
    assert not [part for part in used if part in others]


def test_stages_list_the_parts_off_the_ladder():
    """Every part that can be swapped in by name, and no helper of a part."""
    table = run("stages").stdout
    shown = {line.split()[1] for line in table[table.index("off the ladder") :].splitlines() if "minfer." in line and ":" in line}
    for part in ("policy.priority:policy", "policy.fair_share:policy", "preemption.swap:Swap"):
        assert f"minfer.{part}" in shown
    assert not any(part.startswith(("minfer.scheduler.base", "minfer.scheduler.queue", "minfer.executor.")) for part in shown)
    assert not shown & {part for stage in LADDER for part in stage.parts().values()}


def test_a_helper_is_no_part(tmp_path, monkeypatch):
    """A module's parts are what fits the slot by name of parameters, and is its own and public."""
    source = "from math import floor\ndef mine(gate_up): ...\ndef helper(x): ...\ndef _hidden(gate_up): ...\nclass Gate: ...\n"
    (tmp_path / "some_parts.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    assert parts_of("activation", "some_parts") == ["some_parts:mine"]
    assert parts_of("blocks", "some_parts") == []


def test_pull_prints_the_folder(tiny):
    """stdout is the folder and nothing else, so that a script can use it."""
    assert run("pull", tiny).stdout == f"{tiny}\n"
    assert "no model is called" in run("pull", "nothing-like-it", code=1).stderr


def test_doctor_looks_at_everything(monkeypatch):
    """Each check says whether it is fine, and where it is not, what to do."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = json.loads(run("doctor", "--json").stdout)
    checks = {each["name"]: each for each in found["checks"]}
    assert found["ok"]
    parts = ["gpu", "triton", "compiler", "default stage", "chapters", "hub", "default model"]
    assert list(checks) == ["python", "packages", "threads", "processor", "memory", *parts]
    assert all(each["ok"] or each["advice"] for each in checks.values())
    assert "HF_HUB_OFFLINE" in checks["hub"]["value"]
    assert not checks["hub"]["ok"]
    assert "default stage" in run("doctor").stdout


@pytest.mark.parametrize(("needed", "code"), [(True, 1), (False, 0)])
def test_doctor_fails_only_where_minfer_cannot_run(monkeypatch, needed, code):
    check = doctor_module.Check("memory", "none", False, needed, "buy some")
    monkeypatch.setattr(doctor_module, "CHECKS", (lambda: check,))
    assert "buy some" in run("doctor", code=code).stdout


def test_doctor_reports_a_hub_that_does_not_answer(monkeypatch):
    """No network is a finding, not a failure."""
    monkeypatch.setattr("minfer.hub.offline", lambda: False)
    monkeypatch.setattr(doctor_module, "ask", failing(OSError("no route")))
    found = doctor_module.hub()
    assert (found.ok, found.needed) == (False, False)
    assert "no route" in found.value
