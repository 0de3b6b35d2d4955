"""What `minfer classroom build` writes: no solution for students, archives and notebooks that the real programs take."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import OWN, SOURCE, make_chapter

from minfer.course.chapter import Chapter
from minfer.course.classroom import build
from minfer.course.classroom.nbgrader import with_regions
from minfer.course.classroom.syllabus import spread
from minfer.course.regions import strip
from minfer.errors import MinferError

EMPTY = Chapter(Path("00_empty"), 0, "", "decoder", "hf", 0, "", (), "", {}, {}, {}, (), (), ())
SECRETS = ("chunk(2", "F.silu(gate)", "1234567", "1 234 567", "nearly the code", "Because of the gate")


@pytest.fixture
def chapter(tmp_path_factory, monkeypatch):
    made = make_chapter(tmp_path_factory.mktemp("chapters"), monkeypatch)
    monkeypatch.setattr(build, "all_chapters", lambda: [made])
    return made


@pytest.fixture
def out(chapter, tmp_path):
    build.build_all(tmp_path / "kit")
    return tmp_path / "kit"


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}


def test_students_get_no_solution(out):
    """Not in the repository, and not in the notebooks for nbgrader."""
    files = texts(out / "student")
    assert {"README.md", "requirements.txt", "02_small/part.py", "02_small/README.md", "02_small/questions.md"} <= set(files)
    for name, text in {**files, **texts(out / "nbgrader")}.items():
        for secret in SECRETS:
            assert secret not in text, name
    assert "More text." in files["02_small/README.md"]
    assert "minfer check ch02" in files["README.md"]
    assert "How many halves" in files["02_small/questions.md"]
    assert files["requirements.txt"].startswith("minfer==")


def test_instructors_get_everything(out):
    book = (out / "instructor" / "solutions" / "02_small" / "solutions.md").read_text(encoding="utf-8")
    for text in ("gate, up = gate_up.chunk(2, dim=-1)", "Halve the rows:", "1.23457e+06", "nearly the code", "> Because of the gate."):
        assert text in book
    solved = (out / "instructor" / "solutions" / "02_small" / "part.py").read_text(encoding="utf-8")
    assert "return F.silu(gate) * up" in solved
    with (out / "instructor" / "points.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["points"]) for row in rows) == 10 + 2
    assert "| 10 |" in (out / "instructor" / "syllabus-10-weeks.md").read_text(encoding="utf-8")


def test_nothing_is_written_over(out):
    with pytest.raises(MinferError, match="is there already"):
        build.build_all(out)


def test_the_same_chapters_the_same_archive(chapter, tmp_path):
    for name in ("a", "b"):
        build.build_all(tmp_path / name)
    first, second = ((tmp_path / name / "gradescope" / "ch02.zip").read_bytes() for name in ("a", "b"))
    assert first == second


def test_the_archive_holds_what_the_grader_needs(out):
    with zipfile.ZipFile(out / "gradescope" / "ch02.zip") as archive:
        names = set(archive.namelist())
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert {"setup.sh", "run_autograder", "requirements.txt", "lib/minfer/__main__.py", "lib/chapters/02_small/chapter.toml"} <= names
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert not any("museum" in name for name in names)


@pytest.mark.parametrize("broken", [False, True])
def test_run_autograder(out, tmp_path, broken):
    """The script as Gradescope runs it, in a folder laid out as Gradescope does: results.json, also where the grader cannot start."""
    home = tmp_path / "autograder"
    for name in ("source", "results", "submission", "venv/bin"):
        (home / name).mkdir(parents=True)
    with zipfile.ZipFile(out / "gradescope" / "ch02.zip") as archive:
        archive.extractall(home / "source")
    reference = home / "source" / "lib" / "minfer" / "activation" / "torch.py"
    reference.write_text(SOURCE, encoding="utf-8")
    if broken:
        (home / "source" / "lib" / "minfer" / "__main__.py").write_text("raise SystemExit(3)\n")
    python = home / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    (home / "submission" / "part.py").write_text(OWN, encoding="utf-8")
    environment = {**os.environ, "AUTOGRADER": str(home)}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(["sh", str(home / "source" / "run_autograder")], env=environment, capture_output=True, text=True, check=False)
    content = json.loads((home / "results" / "results.json").read_text(encoding="utf-8"))
    assert content["score"] == (0 if broken else 10), done.stderr
    assert bool(content["tests"]) is not broken


def test_the_notebook_is_one(out):
    nbformat = pytest.importorskip("nbformat")
    path = out / "nbgrader" / "source" / "02_small" / "02_small.ipynb"
    nbformat.validate(nbformat.read(path, as_version=4))


def test_nbgrader_takes_the_metadata(out):
    """nbgrader's own schema, and its reading of which cells are graded, and for how many points."""
    formats = pytest.importorskip("nbgrader.nbgraderformat")
    utils = pytest.importorskip("nbgrader.utils")
    import nbformat

    notebook = nbformat.read(out / "nbgrader" / "source" / "02_small" / "02_small.ipynb", as_version=4)
    formats.MetadataValidator().validate_nb(notebook)
    graded = [cell for cell in notebook.cells if utils.is_grade(cell)]
    assert [cell.metadata.nbgrader.points for cell in graded] == [6, 4, 2]
    assert [utils.is_locked(cell) for cell in graded] == [True, True, False]


def test_regions_around_stubs():
    """As nbgrader finds them: begin, stub, end, at the stub's indentation; stubs of several lines too."""
    starter = strip(SOURCE, "x", "ch02")
    long = re.sub(r"raise NotImplementedError\((.*)\)", r"raise NotImplementedError(\n        \1\n    )", starter, count=1)
    for text in (starter, long):
        marked = with_regions(text)
        assert marked.count("    ### BEGIN SOLUTION\n    raise NotImplementedError(") == 2
        assert marked.count("\n    ### END SOLUTION") == 2
        assert re.sub(r" *### (BEGIN|END) SOLUTION\n", "", marked + "\n") == text + "\n"
        compile(marked, "marked", "exec")


@settings(max_examples=60)
@given(minutes=st.lists(st.integers(10, 120), min_size=1, max_size=15), weeks=st.sampled_from([4, 10]))
def test_weeks(minutes, weeks):
    """All chapters, in order, and no week longer than an even share and one chapter."""
    chapters = [replace(EMPTY, number=i, minutes=each) for i, each in enumerate(minutes)]
    plan = spread(chapters, weeks)
    assert len(plan) == weeks
    assert [chapter for week in plan for chapter in week] == chapters
    longest = max(sum(chapter.minutes for chapter in week) for week in plan)
    assert longest <= sum(minutes) / weeks + max(minutes)
