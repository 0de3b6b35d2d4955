"""start, status, hint, diff and doctor: a student's files are written once, and what was reached is kept beside them."""

from __future__ import annotations

import json
import os

import pytest
from cli_runner import run
from course_fixtures import NORM, write_chapter

from minfer.course import library, progress
from minfer.course.news import changed, news
from minfer.course.starter import digest
from minfer.course.submission import read

STARTER = "# A starter of minfer 0.1.0, text 00000000.\n\nclass ContinuousScheduler:\n    pass\n"


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """Chapters 4 and 7 of a course of their own; the student works in an empty folder."""
    place = tmp_path / "chapters"
    chapter = write_chapter(place)
    chapter.starter.write_text(STARTER)
    write_chapter(place, NORM, "07_fused_norm").starter.write_text("def add_rms_norm(): ...\n")
    monkeypatch.setattr(library, "root", lambda: place)
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return chapter


def test_start_copies_once(chapter, tmp_path):
    """The starter, and never again: what a student has written stays, whatever the command and the version."""
    said = run("start", "ch04").stdout
    mine = tmp_path / "home" / "04_continuous" / "part.py"
    assert mine.read_text() == STARTER
    assert "edit 04_continuous/part.py" in said
    assert "minfer check ch04\n" in said
    mine.write_text("mine")
    chapter.starter.write_text("a new version's")
    assert "stays as it is" in run("start", "4", code=1).stderr
    assert mine.read_text() == "mine"
    assert f"minfer check ch04 {tmp_path / 'b' / '04_continuous' / 'part.py'}" in run("start", "ch04", "--to", tmp_path / "b").stdout
    assert mine.read_text() == "mine"


def test_start_among_the_chapters_themselves(chapter, monkeypatch):
    """In the folder of starters there is no room for a student's own."""
    assert "is minfer's own starter; choose another folder" in run("start", "ch04", "--to", chapter.folder.parent, code=1).stderr
    assert chapter.starter.read_text() == STARTER


def test_start_where_nothing_can_be_written(chapter, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in run("start", "ch04", "--to", tmp_path / "file", code=1).stderr


def test_status_tells_points_and_edits(chapter, tmp_path):
    """Not started, started, the points of the last check, edited since."""

    def states() -> dict[str, str]:
        return {row["chapter"]: row["state"] for row in json.loads(run("status", "--json").stdout)["chapters"]}

    home = tmp_path / "home"
    assert states() == {"ch04": "not started", "ch07": "not started"}
    run("start", "ch04")
    assert states()["ch04"] == "started"
    mine = home / "04_continuous" / "part.py"
    assert progress.home_of(chapter, mine) == home
    progress.write(home, {**progress.read(home), "points": {"ch04": {"task1": 6, "task3": 2}}, "checked": {"ch04": 2e9}})
    assert states()["ch04"] == "6 of 10 points"
    os.utime(mine, (2.1e9, 2.1e9))
    assert states()["ch04"] == "6 of 10 points, edited since"
    table = run("status").stdout
    assert "task1 6/6, task2 0/4, task3 2/2" in table


@pytest.mark.parametrize("content", ["", "[1]", '{"points": 3}', "\x00", '{"points": {"ch04": {"task1": "six"}}}'])
def test_a_spoilt_record_counts_as_none(chapter, tmp_path, content):
    """Nothing fails because of it."""
    home = tmp_path / "home"
    run("start", "ch04")
    (home / ".minfer").mkdir()
    (home / progress.FILE).write_text(content)
    assert "started" in run("status").stdout
    run("hint", "ch04", "task1")


def test_hints_come_one_by_one(chapter):
    """The first at once, one more with each --more, and those that were shown again."""
    assert run("hint", "ch04", "task1").stdout == "1. Who is already running?\n"
    assert run("hint", "ch04", "task1").stdout == "1. Who is already running?\n"
    first = "1. Who is already running?\n2. Look at self.running.\n"
    assert run("hint", "ch04", "task1", "--more").stdout == first
    assert run("hint", "ch04", "task2").stdout == "1. What is left of the budget?\n"
    assert run("hint", "ch04", "task1", "--more").stdout == first + "3. for seq in self.running: ...\n"
    assert run("hint", "ch04", "task1", "--more").stdout == first + "3. for seq in self.running: ...\n"
    assert "ch04 has no task 'task9'; its tasks are task1, task2, task3" in run("hint", "ch04", "task9", code=1).stderr


def test_diff_shows_what_is_swapped(chapter):
    """Each slot that differs, and the sources without the marks of solutions."""
    said = run("diff", "ch04", "ch07").stdout
    for slot in ("scheduler", "attention", "norm"):
        assert f"\n{slot}: minfer." in f"\n{said}"
    assert "+class ChunkedScheduler" in said
    assert "# ch0" not in said
    assert "end with the same parts" in run("diff", "ch04", "4").stderr


def test_doctor_says_which_chapters_run_here(chapter):
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").stdout)["checks"]}
    assert "ch04" in checks["chapters"]["value"]
    assert "ch07" in checks["chapters"]["value"]


def test_a_new_starter_is_told_and_nothing_is_changed(chapter, tmp_path):
    """Only where its text differs; with the lines of CHANGES.md since the student's version."""
    mine = tmp_path / "mine.py"
    mine.write_text(STARTER)
    assert news(read(chapter, mine)) == []
    chapter.starter.write_text(STARTER.replace("0.1.0", "0.3.0"))
    assert news(read(chapter, mine)) == [], "the same text in a later version"
    chapter.starter.write_text(STARTER.replace("0.1.0", "0.3.0").replace("00000000", digest("other")))
    (chapter.folder.parent / "CHANGES.md").write_text(
        "# c\n\n## 0.3.0\n\n- ch04: a clearer task2\n- ch05: other\n\n## 0.2.0\n\n- ch04: x\n\n## 0.1.0\n\n- ch04: y\n"
    )
    told = news(read(chapter, mine))
    assert "minfer 0.1.0; this is 0.3.0" in told[0]
    assert told[1:3] == ["0.3.0: ch04: a clearer task2", "0.2.0: ch04: x"]
    assert len(told) == 4
    assert mine.read_text() == STARTER
    assert changed("## 0.2.0\n- ch04: x\n", "ch04", "0.2.0") == []
    mine.write_text("class ContinuousScheduler: pass\n")
    assert news(read(chapter, mine)) == [], "a file without a header"
