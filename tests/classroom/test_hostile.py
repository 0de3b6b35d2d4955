"""Submissions that want points without work, or harm: none gets a point, the grader ends in time, and nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import psutil
import pytest
from kit import OWN, grade_text, make_chapter

from minfer.course.classroom import results
from minfer.course.classroom.grades import Grade
from minfer.course.jobs import PASSED

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py"))
SECONDS = 60.0  # on a machine with much else to do; alone it is a tenth of that


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    return make_chapter(tmp_path, monkeypatch)


def check_results(grade: Grade) -> None:
    """Every format can be written and read again."""
    for form in (results.to_json, results.to_gradescope):
        content = json.loads(json.dumps(form(grade), allow_nan=False))
        assert content["score"] == grade.points
    ET.fromstring(results.to_junit(grade))
    assert results.text_of(grade)


@pytest.mark.parametrize("path", HOSTILE, ids=[path.stem for path in HOSTILE])
def test_hostile(chapter, path):
    """No property holds, so there are no points; the processes and the folders of the submission are gone."""
    begin, children = time.monotonic(), set(psutil.Process().children(recursive=True))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    graded = grade_text(chapter, path.read_text(encoding="utf-8"))
    assert graded.points == 0, results.text_of(Grade("", "", 1, [graded], []))
    assert not [outcome for task in graded.tasks for outcome in task.outcomes if outcome.status == PASSED]
    assert all(outcome.message for task in graded.tasks for outcome in task.outcomes)
    assert time.monotonic() - begin < SECONDS
    assert set(psutil.Process().children(recursive=True)) <= children
    assert not before or len(os.listdir("/proc/self/fd")) <= before
    check_results(Grade(path.name, "0", 1, [graded], []))


def test_a_right_one(chapter):
    """The same limits leave room for an honest solution: all points, whatever it prints and however often it is asked."""
    graded = grade_text(chapter, OWN + "print('hello')\n", call_seconds=20.0, engine_seconds=60.0)
    assert graded.points == graded.max_points == 10
    assert graded.notes == []
    check_results(Grade("right", "0", 1, [graded], []))


def test_the_network(chapter):
    """A server on this machine, which a submission that had a network could reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        reached = []

        def listen() -> None:
            with contextlib.suppress(OSError):
                reached.append(server.accept())

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        port = server.getsockname()[1]
        text = f"""
import _socket
found = []
try:
    one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    one.connect(("127.0.0.1", {port}))
except OSError:
    pass
def silu_mul(gate_up):
    return gate_up
"""
        assert grade_text(chapter, text, examples=1).points == 0
    assert reached == []


def test_the_submission_sees_no_other_files(chapter):
    """A file that everybody may read is not there in the submission's file system."""
    secret = Path(__file__)
    text = f"def silu_mul(gate_up):\n    raise ValueError('found ' + open({str(secret)!r}).read())\n"
    graded = grade_text(chapter, text, examples=1)
    if "files" not in graded.walls:
        pytest.skip("this system does not let a process have its own file system")
    assert "No such file" in graded.tasks[0].outcomes[0].message
