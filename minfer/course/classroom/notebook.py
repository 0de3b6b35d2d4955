"""What the test cells of a chapter's notebook call: the check of one task, as the grader does it.

From: a cell. To: lines for the student, and the points, which nbgrader reads as the cell's value.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from minfer.course.classroom.grading import grade_chapter
from minfer.course.classroom.process import Limits
from minfer.course.classroom.results import line_of
from minfer.course.library import find_chapter


def points(chapter_name: str, task_id: str, file: str = "part.py") -> int:
    """The points of a task for the part in a file of the working folder. Prints a line a property."""
    chapter = find_chapter(chapter_name)
    only = replace(chapter, tasks=(chapter.task(task_id),))
    path = Path(file)
    graded = grade_chapter(only, path.read_text(encoding="utf-8") if path.is_file() else None, 0, Limits())
    sys.stdout.write("".join(f"{line_of(outcome)}\n" for outcome in graded.tasks[0].outcomes))
    return graded.points
