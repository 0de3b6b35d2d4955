"""What honest submissions get: points by property, a line for each fault, the same grade for the same seed."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from kit import OWN, SOURCE, collected, grade_text, make_chapter

from minfer.course.classroom import results
from minfer.course.classroom.grades import Grade, unfinished
from minfer.course.classroom.grading import grade
from minfer.course.classroom.process import Limits
from minfer.course.classroom.remote_parts import ungradable
from minfer.course.library import all_chapters, find_chapter
from minfer.course.regions import strip
from minfer.course.starter import generate

PATIENT = {"call_seconds": 30.0, "engine_seconds": 90.0}
WRONG_HALF = OWN.replace("F.silu(gate) * up", "F.silu(gate) * up + (gate.abs() > 60) * 9")  # seen where values are large only


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    return make_chapter(tmp_path, monkeypatch)


def outcomes(graded) -> dict:
    return {outcome.job: outcome for task in graded.tasks for outcome in task.outcomes}


def test_the_starter_earns_nothing(chapter):
    graded = grade_text(chapter, strip(SOURCE, "x", "ch02"), **PATIENT)
    assert graded.points == 0
    assert {outcome.status for outcome in outcomes(graded).values()} == {"not written"}
    assert outcomes(graded)["activation.silu-mul"].message == "not written yet: ch02 task1: halve the rows"


def test_the_reference_earns_all_and_is_noticed(chapter):
    graded = grade_text(chapter, SOURCE, **PATIENT)
    assert graded.points == 10
    assert "comments that mark the solution" in graded.notes[0]


def test_part_credit_and_one_line(chapter):
    """One of a task's two properties fails: half of its points, and the message has the statement, both values and the case."""
    graded = grade_text(chapter, WRONG_HALF, examples=40, **PATIENT)
    found = outcomes(graded)
    assert found["activation.silu-mul"].status == "passed"
    assert found["activation.saturated"].status == "failed"
    assert graded.tasks[0].points == 3
    line = results.line_of(found["activation.saturated"])
    assert "\n" not in line
    for part in ("FAILED", "nothing overflows. Expected", "; came ", 'Case: {"tokens": ', '"spread": 30.0'):
        assert part in line


def test_a_crash_costs_the_property_only(chapter):
    """The process is started anew for the next property."""
    text = OWN.replace("    gate, up", "    if (gate_up.abs() > 60).any():\n        import os\n        os._exit(3)\n    gate, up")
    graded = grade_text(chapter, text, examples=40, starts=2, **PATIENT)
    found = outcomes(graded)
    assert found["activation.silu-mul"].status == found["engine"].status == "passed"
    assert "exit code 3" in found["activation.saturated"].message
    assert graded.points == 3 + 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def silu_mul(gate_up:\n", "part.py, line 1"),
        ("def other(gate_up): ...\n", "defines no silu_mul"),
        ("from minfer.activation.torch import silu_mul\n", "imports silu_mul from minfer's own"),
        ("x = 1 / 0\ndef silu_mul(gate_up): ...\n", "division by zero"),
        ("def silu_mul(): ...\n", "must take (gate_up)"),
        ("silu_mul = 3\n", "must be a function"),
        (None, "nothing was handed in"),
        ("(" * 100_000, "part.py"),
    ],
)
def test_what_cannot_be_loaded(chapter, text, message):
    graded = grade_text(chapter, text)
    assert graded.points == 0
    for outcome in outcomes(graded).values():
        assert message in outcome.message


def test_the_same_seed_the_same_grade(chapter):
    """Whoever regrades gets the same cases; another seed draws others."""
    first, again, other = (outcomes(grade_text(chapter, WRONG_HALF, seed, 60, **PATIENT)) for seed in (5, 5, 6))
    assert first == again
    assert first["activation.saturated"].facts["case"] is not None
    assert other["activation.saturated"].status == "failed"


def test_the_formats(chapter):
    """What instructors' programs read: sums that fit, statuses, no seed where students look."""
    found = collected(ch02=WRONG_HALF)
    whole = grade(found, [chapter], 123456, Limits(**PATIENT), examples=30)
    own = json.loads(json.dumps(results.to_json(whole), allow_nan=False))
    assert own["score"] == sum(task["score"] for task in own["chapters"][0]["tasks"]) == whole.points
    scope = results.to_gradescope(whole)
    assert scope["score"] == sum(test["score"] for test in scope["tests"])
    assert sum(test["max_score"] for test in scope["tests"]) == 10
    assert {test["status"] for test in scope["tests"]} == {"failed", "passed"}
    assert "123456" not in json.dumps({**scope, "extra_data": None})
    suites = ET.fromstring(results.to_junit(whole))
    assert [(suite.get("tests"), suite.get("failures")) for suite in suites] == [("2", "1"), ("1", "0")]
    assert "FAILED  activation.saturated" in results.text_of(whole)


def test_a_grader_that_does_not_end(chapter, tmp_path):
    """The file that is there before anything runs: valid, and no points."""
    found = collected(ch02=SOURCE)
    file = tmp_path / "results.json"
    results.write(file, results.to_gradescope(unfinished(found, [chapter], 1)))
    read = json.loads(file.read_text())
    assert read["score"] == 0
    assert "did not come to its end" in read["tests"][0]["output"]
    results.write(file, results.to_junit(Grade("\x00\ud800", "", 1, [], ["\x01"])))
    ET.fromstring(file.read_text())


def test_a_policy_is_graded():
    """A key at a time; by arrival it has nothing of what the chapter asks for."""
    chapter = find_chapter("ch16")
    solved = generate(chapter, solved=True)
    assert grade_text(chapter, solved, examples=40, **PATIENT).points == 10
    by_arrival = solved.partition("def policy")[0] + "def policy(seq, context):\n    return (seq.seq_id,)\n"
    assert grade_text(chapter, by_arrival, examples=40, **PATIENT).points == 0


def test_all_chapters_but_those_of_executors_are_graded():
    assert [chapter.id for chapter in all_chapters() if ungradable(chapter) is not None] == ["ch14", "ch15"]


@pytest.mark.parametrize("name", ["ch14", "ch15"])
def test_executors_are_not_graded_and_it_is_said(name):
    """They need processes, which a submission has not got here."""
    chapter = find_chapter(name)
    graded = grade_text(chapter, generate(chapter, solved=True), **PATIENT)
    messages = {outcome.message for outcome in outcomes(graded).values()}
    assert len(messages) == 1
    assert f"`minfer check {name}` checks them" in messages.pop()
