"""A grade in the formats that other programs read: our own JSON, Gradescope's results.json, JUnit's XML; and in words.

Sources of the formats: gradescope-autograders.readthedocs.io, "Autograder Specifications"; the JUnit schema of Jenkins' xunit plugin.

From: `grading.py`. To: files, written whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import minfer
from minfer.course.chapter import ENGINE
from minfer.course.classroom.grades import ChapterGrade, Grade, TaskGrade
from minfer.course.jobs import FAILED, PASSED, Outcome

FORMAT = 1
LONGEST_CASE = 600  # characters shown
NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd]")  # characters that no XML may have


def line_of(outcome: Outcome) -> str:
    """One line a property: what became of it, and the simplest case that shows a fault."""
    if outcome.status == PASSED:
        what = "requests" if outcome.job == ENGINE else "cases"
        return f"passed  {outcome.job} ({outcome.examples} {what})"
    line = f"{outcome.status if outcome.status != FAILED else 'FAILED'}  {outcome.job}: {outcome.message}"
    case = outcome.facts.get("case")
    if outcome.status == FAILED and case:
        text = json.dumps(case)
        line += f". Case: {text if len(text) <= LONGEST_CASE else text[:LONGEST_CASE] + ' ...'}"
    return line.replace("\n", " ")


def text_of(grade: Grade) -> str:
    """For a terminal."""
    lines = []
    for chapter in grade.chapters:
        lines.append(f"{chapter.id} {chapter.title}: {chapter.points} of {chapter.max_points} points")
        for task in chapter.tasks:
            lines.append(f"  {task.id} {task.title}: {task.points} of {task.max_points}{' (bonus)' if task.bonus else ''}")
            lines += [f"    {line_of(outcome)}" for outcome in task.outcomes]
        lines += [f"  note: {note}" for note in chapter.notes]
    lines += [f"note: {note}" for note in grade.notes]
    return "\n".join([*lines, f"{grade.points} of {grade.max_points} points"])


def to_json(grade: Grade) -> dict[str, Any]:
    """Everything, for programs of one's own. With the hidden seed: for instructors only."""
    return {
        "format": FORMAT,
        "minfer": minfer.__version__,
        "submission": {"name": grade.name, "sha256": grade.digest},
        "hidden_seed": grade.seed,
        "score": grade.points,
        "max_score": grade.max_points,
        "notes": grade.notes,
        "chapters": [_chapter(chapter) for chapter in grade.chapters],
    }


def _chapter(chapter: ChapterGrade) -> dict[str, Any]:
    tasks = [
        {
            "id": task.id,
            "title": task.title,
            "score": task.points,
            "max_score": task.max_points,
            "bonus": task.bonus,
            "properties": [
                {
                    "name": outcome.job,
                    "status": outcome.status,
                    "cases": outcome.examples,
                    "message": outcome.message,
                    "case": outcome.facts.get("case"),
                    "replay": outcome.facts.get("replay"),
                }
                for outcome in task.outcomes
            ],
        }
        for task in chapter.tasks
    ]
    facts = {"score": chapter.points, "max_score": chapter.max_points, "seconds": chapter.seconds, "walls": chapter.walls}
    return {"id": chapter.id, "title": chapter.title, **facts, "notes": chapter.notes, "tasks": tasks}


def to_gradescope(grade: Grade) -> dict[str, Any]:
    """A test a task; students see one line a property, and no notes."""
    tests = [
        {
            "name": f"{chapter.id} {task.id}: {task.title}",
            "number": f"{chapter.id[2:].lstrip('0')}.{position}",
            "score": task.points,
            "max_score": 0 if task.bonus else task.max_points,
            "status": "passed" if task.points == task.max_points else "failed",
            "output": "\n".join(map(line_of, task.outcomes)),
            "output_format": "text",
            "visibility": "visible",
        }
        for chapter in grade.chapters
        for position, task in enumerate(chapter.tasks, start=1)
    ]
    notes = [note for chapter in grade.chapters for note in chapter.notes] + grade.notes
    hidden = {"notes": notes, "hidden_seed": grade.seed, "minfer": minfer.__version__, "sha256": grade.digest}
    return {
        "score": grade.points,
        "execution_time": round(sum(chapter.seconds for chapter in grade.chapters)),
        "output": "" if tests else "Nothing could be graded: hand in a file called part.py, in its chapter's folder.",
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "extra_data": hidden,
        "tests": tests,
    }


def to_junit(grade: Grade) -> str:
    """A suite a task, a case a property."""
    suites = ET.Element("testsuites", name=_clean(grade.name))
    for chapter in grade.chapters:
        for task in chapter.tasks:
            suites.append(_suite(chapter, task))
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _suite(chapter: ChapterGrade, task: TaskGrade) -> ET.Element:
    bad = [outcome for outcome in task.outcomes if outcome.status != PASSED]
    failures = [outcome for outcome in bad if outcome.status == FAILED]
    suite = ET.Element(
        "testsuite", name=f"{chapter.id}.{task.id}", tests=str(len(task.outcomes)), failures=str(len(failures)), errors="0",
        skipped=str(len(bad) - len(failures)), time="0",
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    for name, value in (("score", task.points), ("max_score", task.max_points)):
        ET.SubElement(properties, "property", name=name, value=str(value))
    for outcome in task.outcomes:
        case = ET.SubElement(suite, "testcase", classname=f"{chapter.id}.{task.id}", name=_clean(outcome.job), time="0")
        if outcome.status != PASSED:
            kind = "failure" if outcome.status == FAILED else "skipped"
            ET.SubElement(case, kind, message=_clean(outcome.message or "")).text = _clean(line_of(outcome))
    return suite


def _clean(text: str) -> str:
    return NO_XML.sub("?", text)


def write(path: Path, content: dict[str, Any] | str) -> None:
    """Write a file whole: a reader finds the old one or the new one, never half of one."""
    text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8", errors="replace")
    os.replace(beside, path)
