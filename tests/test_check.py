"""`minfer check` and the pytest plugin: what they say of good, wrong, unwritten and unusable parts, and that a replay replays."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from cli_runner import run
from hypothesis import strategies as st
from typer.testing import CliRunner

from minfer.cli.app import app
from minfer.parts import SLOTS
from minfer.testing import checking
from minfer.testing.checking import check
from minfer.testing.properties import CPU, Place, Property, expect
from minfer.testing.suites import suite_of

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "tests" / "mutants"
PARTIAL_PAGE = f"{MUTANTS / 'attention' / 'partial_page.py'}:mutant"


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(textwrap.dedent(text))
    return path


def lines(result) -> list[str]:
    return [line.strip() for line in result.stdout.splitlines()]


@pytest.mark.parametrize("slot", SLOTS)
def test_every_suite_can_be_used(slot):
    """Unique names, whole sentences, and cases that survive being printed and read again, on every kind of place."""
    suite = suite_of(slot)
    assert len({prop.name for prop in suite}) == len(suite)
    for prop in suite:
        assert prop.statement.endswith(".")
        assert " " not in prop.name
        for place in (CPU, Place(interpreted=True), Place("cuda")):
            case = checking.simplest(prop, place)
            text = f"{prop.name} {checking.one_line(case)}"
            assert checking.parse_replay(text, suite, place) == (prop, case)


def test_a_part_that_is_right():
    """A line a property with the number of examples, the file that fills the slot, exit code 0."""
    result = run("check", "norm", "--examples", 7)
    first, *rest, last = lines(result)
    assert first.startswith("norm is filled by add_rms_norm of ")
    assert first.endswith("minfer/norm/torch.py")
    assert [line.split() for line in rest] == [["passed", prop.name, "7", "examples"] for prop in suite_of("norm")]
    assert last == f"{len(rest)} properties: {len(rest)} passed"


def test_a_wrong_part_is_explained_in_ten_lines():
    """What must hold, what was expected, what came, on which case, what it depends on, and how to run it again."""
    result = run("check", "attention", "--part", PARTIAL_PAGE, code=1)
    said = lines(result)
    end = next(i for i, line in enumerate(said) if line.startswith("replay:"))
    assert end < 10
    assert said[1].startswith("FAILED       decode")
    assert said[2] == f"must hold: {suite_of('attention')[0].statement}"
    assert "position 4 of context 5 (pages: 2, the last holds 1 of 4)" in said[3]
    assert said[4].startswith("came:      ")
    assert "off by" in said[4]
    case = json.loads(said[5].removeprefix("case:"))
    assert (case["rows"], case["block_size"]) == ([[1, 5]], 4)
    assert "depends:   context of one row: fails at 5, 6, 7, 9," in "\n".join(said)
    assert "Traceback" not in result.output
    documented = [line.strip() for line in (ROOT / "docs" / "parity.md").read_text().splitlines()]
    assert [line for line in said if line.startswith(("must hold", "expected", "came", "depends")) and line not in documented] == []


def test_a_replay_runs_that_very_case(tmp_path):
    """The printed command gives the same failure; once the part is right, it passes."""
    path = write(tmp_path, (MUTANTS / "norm" / "padded_mean.py").read_text())
    first = run("check", "norm", "--part", f"{path}:mutant", code=1)
    command = shlex.split(next(line for line in lines(first) if line.startswith("replay:")).removeprefix("replay:"))
    assert command[:2] == ["minfer", "check"]
    again = run(*command[1:], code=1)
    assert [line for line in lines(again) if line.startswith(("expected", "came"))] == [
        line for line in lines(first) if line.startswith(("expected", "came"))
    ]
    assert lines(again)[-1] == "1 property: 1 failed"
    write(tmp_path, "from minfer.norm.torch import add_rms_norm as mutant")
    assert "passed       normalised           1 example" in run(*command[1:]).stdout


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense {}", "must begin with a property's name, and 'nonsense' is none; they are normalised, sum"),
        ("sum", "must go on with a case in JSON"),
        ("sum {bad", "must go on with a case in JSON"),
        ('sum {"tokens": 3}', "a case of 'sum' is a JSON object with dtype, eps"),
        ("sum 5", "a case of 'sum' is a JSON object"),
    ],
)
def test_a_replay_that_is_none(text, message):
    """The command line is wrong: exit code 2, and what a replay must be."""
    result = CliRunner().invoke(app, ["check", "norm", "--replay", text])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_what_cannot_be_checked(tmp_path):
    """An unknown slot is a wrong command line; a part that is not there or does not fit cannot be checked."""
    assert "no slot is called 'atention'" in CliRunner().invoke(app, ["check", "atention"]).output.replace("\n", " ")
    run("check", "atention", code=2)
    assert "there is no file" in run("check", "norm", "--part", tmp_path / "none.py:norm", code=1).stderr
    path = write(tmp_path, "def norm(x): pass")
    assert "must take (x, residual, weight, eps)" in run("check", "norm", "--part", f"{path}:norm", code=1).stderr


STUB = """
from minfer.attention.torch import attention as theirs

def attention(q, kv, batch, scale, window):
    if batch.num_decode < batch.num_seqs:
        raise NotImplementedError("ch04 task 2: chunks")
    return theirs(q, kv, batch, scale, window)
"""


def test_a_stub_shows_how_far_it_got(tmp_path):
    """What raises NotImplementedError is not written yet, and no failure: its message instead of a stack."""
    path = write(tmp_path, STUB)
    report = tmp_path / "report.json"
    result = run("check", "attention", "--part", f"{path}:attention", "--examples", 20, "--json", report, code=1)
    said = {line.split()[-1] if line.startswith("passed") else line for line in lines(result)}
    assert any(line.startswith("not written  chunk") and line.endswith("passed before: ch04 task 2: chunks") for line in said)
    assert lines(result)[-1] == "7 properties: 2 passed, 5 not written"
    found = json.loads(report.read_text())
    assert (found["slot"], found["passed"], found["file"]) == ("attention", False, str(path))
    status = {each["name"]: each["status"] for each in found["properties"]}
    assert (status["decode"], status["padding"], status["chunk"]) == ("passed", "passed", "not written")
    assert all(each["replay"].startswith(each["name"]) for each in found["properties"] if each["case"] is not None)


def test_an_exception_is_told_with_its_line(tmp_path):
    """The type, the message and the part's own line; the traceback only with --debug."""
    path = write(tmp_path, "def norm(x, residual, weight, eps):\n    return weight[10**6], x\n")
    result = run("check", "norm", "--part", f"{path}:norm", code=1)
    assert "raised:    IndexError: index 1000000 is out of bounds" in result.stdout
    assert "(mine.py, line 2: return weight[10**6], x)" in result.stdout
    debug = CliRunner().invoke(app, ["--debug", "check", "norm", "--part", f"{path}:norm"])
    assert "Traceback" in debug.stderr
    assert debug.exit_code == 1


def test_the_reference_under_another_name_is_seen(tmp_path):
    """A file that only imports a part says where it takes it from."""
    path = write(tmp_path, "from minfer.norm.torch import add_rms_norm")
    first, second, *_ = lines(run("check", "norm", "--part", f"{path}:add_rms_norm", "--examples", 1))
    assert first.endswith(f"of {path}")
    assert second.startswith("which takes it from ")
    assert second.endswith("minfer/norm/torch.py")


def number_case(place: Place) -> st.SearchStrategy:
    return st.fixed_dictionaries({"n": st.integers(0, 10**6)})


def test_the_same_seed_draws_the_same_cases():
    """And another one draws others; the number of examples is kept."""

    def drawn(at: int) -> list[int]:
        seen = []
        check(Property("n", "n.", number_case, lambda part, case: seen.append(case["n"])), None, examples=20, at=at)
        return seen

    assert drawn(3) == drawn(3) != drawn(4)
    assert len(drawn(3)) == 20


def test_the_simplest_case_is_found_and_what_it_depends_on():
    """Shrinking ends at the edge, and only what makes a difference is reported."""

    def check_number(part, case):
        expect(case["n"] < 1234, "less than 1234", case["n"])

    def vary(case, place):
        return {"n": {n: {"n": n} for n in (1233, 1234, 9999)}, "nothing": {"itself": case}}

    result = check(Property("n", "n is small.", number_case, check_number, 50, vary), None)
    assert (result.status, result.case) == ("failed", {"n": 1234})
    assert result.varying == {"n": {"1233": True, "1234": False, "9999": False}}


def test_a_part_that_does_not_fail_again():
    """A fault that comes and goes is reported as one, with the case on which it was seen."""
    calls = []

    def sometimes(part, case):
        calls.append(case)
        expect(len(calls) != 5, "no fifth call", "one")

    result = check(Property("n", "n.", number_case, sometimes), None)
    assert (result.status, result.flaky, result.case) == ("failed", True, calls[4])


def test_a_kernel_runs_in_the_interpreter():
    """Without a GPU, a Triton part is checked in a process of its own, which says so."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "minfer", "check", "activation", "--part", "minfer.activation.triton:silu_mul"]
    done = subprocess.run([*command, "--examples", "2"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("activation is filled by silu_mul of ")
    assert "interpreter" in said[1] or "cuda" in said[1]
    assert said[-1] == "2 properties: 2 passed"


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    """pytest as another project runs it, with this plugin and no other, whether minfer is installed or not."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "minfer.testing.plugin", *arguments]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": paths}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


def test_the_plugin_is_installed_with_minfer():
    """pytest finds it by its entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"minfer": "minfer.testing.plugin"}


def test_the_plugin_runs_a_suite_in_another_project(tmp_path):
    """A test for each property; what fails is told as `minfer check` tells it."""
    write(tmp_path, (MUTANTS / "norm" / "forgets_the_sum.py").read_text())
    done = pytest_in(tmp_path, "--pyargs", "minfer.testing", "--part", "norm=mine.py:mutant", "--part-examples", "30")
    assert done.returncode == 1, done.stdout
    assert "3 passed" in done.stdout.splitlines()[-1]
    assert "norm-sum" in done.stdout
    assert "must hold: The second result is r = x + residual" in done.stdout
    assert f"norm is filled by mutant of {tmp_path / 'mine.py'}" in done.stdout
    assert "replay:    minfer check norm --part mine.py:mutant --replay 'sum {" in done.stdout
    assert "checking.py" not in done.stdout, "no stack of our own frames"


def test_the_plugin_refuses_what_is_no_part(tmp_path):
    """A mistake in --part is one line, before any test."""
    for part, message in (
        ("norm", "is not SLOT=module:Name"),
        ("norm=none.py:norm", "there is no file"),
        ("nrm=a:b", "no slot is called"),
    ):
        done = pytest_in(tmp_path, "--pyargs", "minfer.testing", "--part", part)
        assert done.returncode == 4, done.stdout
        assert message in done.stderr


def test_the_plugin_costs_other_projects_nothing(tmp_path):
    """pytest loads it everywhere: it must import neither PyTorch nor hypothesis."""
    heavy = "{'torch', 'transformers', 'minfer.resolve', 'minfer.testing.checking'}"
    (tmp_path / "test_light.py").write_text(f"import sys\n\ndef test_light():\n    assert not {heavy} & set(sys.modules)\n")
    done = pytest_in(tmp_path, "test_light.py")
    assert done.returncode == 0, done.stdout
