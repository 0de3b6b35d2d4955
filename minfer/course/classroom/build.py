"""`minfer classroom build`: everything that a class needs, from the chapters that there are.

    student/       a repository to hand out: starters and texts, no solutions
    gradescope/    an autograder for each chapter
    nbgrader/      a notebook for each chapter, with nbgrader's metadata
    instructor/    solutions, rubrics, points, syllabi; not for students

From: the chapters. To: a new folder. `docs/instructors.md` says how it is used.
"""

from __future__ import annotations

from pathlib import Path

import minfer
from minfer.course.classroom import autograder, nbgrader, solutions, student, syllabus
from minfer.course.classroom.remote_parts import ungradable
from minfer.course.library import all_chapters
from minfer.errors import MinferError


def build_all(out: Path, install: str | None = None) -> list[tuple[Path, str]]:
    """Write everything → each thing's path, and what it is.

    Args:
        install: what students install, as pip takes it; None: minfer of this version.

    Raises:
        MinferError: the folder has something in it already, or cannot be written.
    """
    chapters = all_chapters()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise MinferError(f"{out} is there already; --out names a new or empty folder, so that nothing of yours is written over")
    try:
        student.write(out / "student", chapters, install or f"minfer=={minfer.__version__}")
        graded = [chapter for chapter in chapters if ungradable(chapter) is None]
        for chapter in graded:
            autograder.write(out / "gradescope" / f"{chapter.id}.zip", chapter)
        nbgrader.write(out / "nbgrader", chapters)
        solutions.write(out / "instructor", chapters)
        syllabus.write(out / "instructor", chapters)
    except OSError as error:
        raise MinferError(f"{error.filename or out} cannot be written: {error.strerror}") from None
    return [
        (out / "student", "a repository for students: starters, texts, questions, how to hand in"),
        (out / "gradescope", f"an autograder for each of the {len(graded)} chapters that can be graded by one"),
        (out / "nbgrader", "a notebook for each chapter, for nbgrader's source folder, and its configuration"),
        (out / "instructor", "solutions, rubrics, points, syllabi for four and for ten weeks: keep it to yourself"),
    ]
