"""The pytest plugin: another project runs the suites on its own parts, and pays nothing where it does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "tests" / "mutants"


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
    shutil.copy(MUTANTS / "norm" / "forgets_the_sum.py", tmp_path / "mine.py")
    done = pytest_in(tmp_path, "--pyargs", "minfer.testing", "--part", "norm=mine.py:mutant", "--part-examples", "30")
    assert done.returncode == 1, done.stdout
    assert "1 failed, 5 passed" in done.stdout.splitlines()[-1]
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


def test_the_plugin_says_what_it_checked(tmp_path):
    """Which file filled the slot: also with -q, where all is well, and where nobody named a part."""
    done = pytest_in(tmp_path, "--pyargs", "minfer.testing", "--part-examples", "1", "-k", "norm-sum or policy-order")
    assert done.returncode == 0, done.stdout
    for slot in ("norm", "policy"):
        assert f"{slot} is filled by " in done.stdout


def test_the_plugin_wants_a_case_at_least(tmp_path):
    for count in ("0", "-3"):
        done = pytest_in(tmp_path, "--pyargs", "minfer.testing", "--part-examples", count)
        assert done.returncode == 4, done.stdout
        assert f"--part-examples {count}: at least one case must be drawn" in done.stderr


def test_the_plugin_costs_other_projects_nothing(tmp_path):
    """pytest loads it everywhere: it must import neither PyTorch nor hypothesis."""
    heavy = "{'torch', 'transformers', 'minfer.resolve', 'minfer.testing.checking'}"
    (tmp_path / "test_light.py").write_text(f"import sys\n\ndef test_light():\n    assert not {heavy} & set(sys.modules)\n")
    done = pytest_in(tmp_path, "test_light.py")
    assert done.returncode == 0, done.stdout
