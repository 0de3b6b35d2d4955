"""`minfer classroom grade` and `build`: for instructors.

From: the command line. To: `minfer/course/classroom`; grades and files to hand out.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from minfer.cli.console import note


def grade(
    submission: Annotated[Path, typer.Argument(metavar="SUBMISSION", help="A part.py, a folder or a zip.")],
    chapter: Annotated[str | None, typer.Option(help="The only chapter that counts; otherwise all that were handed in.")] = None,
    hidden_seed: Annotated[int | None, typer.Option(min=0, help="The same seed, the same cases; otherwise drawn anew.")] = None,
    examples: Annotated[int | None, typer.Option(min=1, help="Cases for each property.")] = None,
    memory: Annotated[int, typer.Option(min=1, help="GiB that a submission may use.")] = 6,
    call_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds that one call of the part may take.")] = 10.0,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write everything.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML.")] = None,
    gradescope: Annotated[Path | None, typer.Option(metavar="FILE", help="Write Gradescope's results.json.")] = None,
) -> None:
    """Grade a submission as untrusted code, on cases that it cannot know. Exits with 0 whatever its points are."""
    from minfer.bench.report import check_writable
    from minfer.course.classroom import results
    from minfer.course.classroom.collect import collect
    from minfer.course.classroom.grades import unfinished
    from minfer.course.classroom.grading import chapters_of
    from minfer.course.classroom.grading import grade as grade_all
    from minfer.course.classroom.process import Limits
    from minfer.course.library import find_chapter

    only = find_chapter(chapter) if chapter else None
    for file in (report, junit, gradescope):
        if file is not None:
            check_writable(file)

    def write(grade: object) -> None:
        for file, form in ((report, results.to_json), (junit, results.to_junit), (gradescope, results.to_gradescope)):
            if file is not None:
                results.write(file, form(grade))

    found = collect(submission, only)
    chapters = chapters_of(found, only)
    seed = secrets.randbits(48) if hidden_seed is None else hidden_seed
    write(unfinished(found, chapters, seed))  # so that there is a result whatever ends the grader
    grade = grade_all(found, chapters, seed, Limits(call_seconds=call_seconds, memory=memory << 30), examples)
    write(grade)
    typer.echo(results.text_of(grade))
    for file in (report, junit, gradescope):
        if file is not None:
            note(f"wrote {file}")


def build(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that is not there yet, or empty.")],
    install: Annotated[str | None, typer.Option(help="What students install; otherwise minfer of this version.")] = None,
) -> None:
    """Make what a class needs: a student repository, an autograder, notebooks, a solutions book, syllabi, a table of points."""
    from minfer.course.classroom.build import build_all

    for path, what in build_all(out, install):
        typer.echo(f"{path}  {what}")
