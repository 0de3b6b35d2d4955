"""Notebooks for nbgrader: a chapter's starter in one cell, a test cell a task, a cell for each written answer.

nbgrader's metadata (schema version 3) says of each cell whether it is graded, a solution, locked, and its points. The cells themselves
are as nbformat 4 wants them. A test cell's last value is the points of its task, which nbgrader takes as partial credit.

From: the chapters. To: nbgrader's `source` folder, and its configuration.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from minfer.course.chapter import Chapter
from minfer.course.starter import generate

STUB = re.compile(r"^( +)((?:raise NotImplementedError|tl\.static_assert)\((?:.*\)|\n(?: .*\n)*?\1\)))$", re.MULTILINE)
CONFIG = '''"""nbgrader's configuration for the course."""

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "minfer"
c.ClearSolutions.code_stub = {"python": "raise NotImplementedError('to be written')"}
c.ClearSolutions.text_stub = "Your answer."
c.ExecutePreprocessor.timeout = 900
'''
CHECK = """from minfer.course.classroom.notebook import points

points("{chapter}", "{task}")"""


def write(folder: Path, chapters: list[Chapter]) -> None:
    for chapter in chapters:
        home = folder / "source" / chapter.name
        home.mkdir(parents=True)
        (home / f"{chapter.name}.ipynb").write_text(json.dumps(notebook(chapter), indent=1) + "\n", encoding="utf-8")
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")


def notebook(chapter: Chapter) -> dict[str, Any]:
    """The chapter's notebook, in nbformat 4.5."""
    intro = f"# Chapter {chapter.number}: {chapter.title}\n\n{chapter.summary}\n\nThe text is the chapter's README.md."
    write_cell = (
        "## Your part\n\nRunning this cell writes `part.py`. Write where it says so, run it, then run the cells below. Each one shows "
        "what holds and what does not, and ends with the points of its task."
    )
    cells = [
        _cell(chapter, "intro", "markdown", intro, locked=True),
        _cell(chapter, "how", "markdown", write_cell, locked=True),
        _cell(chapter, "part", "code", f"%%writefile part.py\n{with_regions(generate(chapter))}", solution=True),
    ]
    for task in chapter.tasks:
        title = f"### {task.id}: {task.title} ({task.points} points{', bonus' if task.bonus else ''})"
        cells.append(_cell(chapter, f"{task.id}-title", "markdown", title, locked=True))
        check = CHECK.format(chapter=chapter.id, task=task.id)
        cells.append(_cell(chapter, task.id, "code", check, locked=True, grade=True, points=task.points))
    for i, each in enumerate(chapter.written, start=1):
        rubric = "\n".join(f"- {line}" for line in each.rubric)
        question = f"## Written question {i}\n\n{each.question}\n\nMarked so:\n\n{rubric}"
        cells.append(_cell(chapter, f"question{i}", "markdown", question, locked=True))
        points = max(int(line.partition(":")[0]) for line in each.rubric)
        cells.append(_cell(chapter, f"answer{i}", "markdown", "Your answer.", solution=True, grade=True, points=points))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}


def with_regions(starter: str) -> str:
    """nbgrader's marks around each stub, so that it leaves the rest of the cell alone when it makes the students' version."""
    return STUB.sub(r"\1### BEGIN SOLUTION\n\1\2\n\1### END SOLUTION", starter)


def _cell(
    chapter: Chapter,
    name: str,
    kind: str,
    source: str,
    grade: bool = False,
    solution: bool = False,
    locked: bool = False,
    points: int = 0,
) -> dict[str, Any]:
    """One cell. grade_id and the cell's own id are unique in the notebook."""
    grade_id = f"{chapter.id}-{name}"
    marks: dict[str, Any] = {
        "schema_version": 3, "grade_id": grade_id, "grade": grade, "solution": solution, "locked": locked, "task": False,
    }  # fmt: skip
    if grade:
        marks["points"] = points
    else:
        marks["cell_type"] = kind
    cell: dict[str, Any] = {"cell_type": kind, "id": grade_id, "metadata": {"nbgrader": marks}, "source": source}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell
