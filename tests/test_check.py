"""`minfer check`: what it says of good, wrong, unwritten and unusable parts, and that a replay replays."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cli_runner import run
from typer.testing import CliRunner

from minfer.cli.app import app
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
    assert lines(result)[-1] == "11 properties: 4 passed, 7 not written"
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


def test_a_kernel_runs_in_the_interpreter():
    """Without a GPU, a Triton part is checked in a process of its own, which says so."""
    pytest.importorskip("triton")
    command = [sys.executable, "-m", "minfer", "check", "activation", "--part", "minfer.activation.triton:silu_mul"]
    done = subprocess.run([*command, "--examples", "2"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("activation is filled by silu_mul of ")
    assert "interpreter" in said[1] or "cuda" in said[1]
    assert said[-1] == "3 properties: 3 passed"


def test_a_part_that_does_not_end(tmp_path, monkeypatch):
    """It is stopped, with its line; the other properties, which would not end either, are not tried."""
    monkeypatch.setattr("minfer.testing.limits.CASE_SECONDS", 1.0)
    path = write(tmp_path, "def norm(x, residual, weight, eps):\n    while True:\n        pass\n")
    said = lines(run("check", "norm", "--part", f"{path}:norm", code=1))
    assert said[3] == "expected:  an end within 1 s"
    assert said[4].startswith("came:      none: it was still at mine.py, line ")
    assert said[-1] == "1 property: 1 failed; the others were not tried, since this one took too long"


@pytest.mark.parametrize("raised", ["SystemExit(0)", "GeneratorExit", "__import__('pytest').skip.Exception('not today')"])
def test_whatever_a_part_raises_is_a_failure(tmp_path, raised):
    """Not only exceptions that derive from Exception."""
    path = write(tmp_path, f"def norm(x, residual, weight, eps):\n    raise {raised}\n")
    result = run("check", "norm", "--part", f"{path}:norm", "--examples", 1, code=1)
    assert "(mine.py, line 2: raise " in result.stdout
    assert lines(result)[-1].endswith(" failed")


def test_a_part_that_crashes_says_where(tmp_path):
    """A crash in C ends the process: Python's stack is told before."""
    path = write(tmp_path, "import ctypes\n\ndef norm(x, residual, weight, eps):\n    ctypes.string_at(0)\n")
    command = [sys.executable, "-m", "minfer", "check", "norm", "--part", f"{path}:norm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0
    assert f'File "{path}", line 4 in norm' in done.stderr


def test_a_case_drawn_on_a_gpu_runs_here():
    """The device is this machine's, whatever the case says."""
    case = '{"tokens": 1, "size": 2, "residual": false, "dtype": "float32", "eps": 1e-05, "spread": 1.0, "seed": 0, "device": "cuda"}'
    result = run("check", "norm", "--part", "minfer.norm.torch:add_rms_norm", "--replay", f"sum {case}")
    assert lines(result)[-1] == "1 property: 1 passed"


@pytest.mark.parametrize("examples", ["0", "-1", "1000000000", "many"])
def test_a_number_of_examples_that_is_none(examples):
    assert "--examples" in run("check", "norm", "--examples", examples, code=2).stderr
