"""`minfer check ch04`: which file fills which slot, every task with its points, the whole engine, and its speed.

From: the command line. To: `minfer/course`, whose worker runs the student's file; results to stdout as they come, and into a report.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from minfer.cli.console import note

if TYPE_CHECKING:
    from minfer.course.chapter import Chapter, Task
    from minfer.course.jobs import Outcome
    from minfer.course.submission import Submission

PRINTED = 5  # lines of what a part prints that are shown


def is_chapter(what: str) -> bool:
    """Whether WHAT means a chapter: a number, ch and a number, or a chapter's name."""
    from minfer.course.chapter import ChapterError
    from minfer.course.chapter_file import FOLDER
    from minfer.course.library import folders

    if re.fullmatch(r"(ch(apter)?)?[ _]?\d+(_\w+)?/?", what, re.IGNORECASE):
        return True
    try:
        names = [FOLDER.fullmatch(folder.name) for folder in folders()]
    except ChapterError:
        return False
    return what.replace("-", "_") in [match[2] for match in names if match]


def check_chapter(name: str, file: Path | None, task_id: str | None, examples: int | None, seed: int, report: Path | None) -> None:
    """Check a student's file. Exits with 1 unless all points of the core tasks, or of the one task, are earned."""
    from minfer.course import submission
    from minfer.course.jobs import all_jobs, points_of
    from minfer.course.library import find_chapter
    from minfer.course.news import news
    from minfer.course.supervise import Request, events

    chapter = find_chapter(name)
    if report is not None:
        from minfer.bench.report import check_writable

        check_writable(report)
    tasks = chapter.tasks if task_id is None else (chapter.task(task_id),)
    given = submission.read(chapter, file or submission.default_file(chapter))
    introduce(given)
    for line in news(given):
        note(line)
    jobs = all_jobs(tasks)
    wants_engine = task_id is None or any(job.prop == "engine" for job in jobs)
    request = Request(chapter, {slot: given.name(slot) for slot in given.parts}, jobs, wants_engine, task_id is None, examples, seed)
    outcomes: dict[str, Outcome] = {}
    unusable: dict[str, str] = {}
    speed = None
    teller = Teller(tasks, outcomes)
    for event in events(request):
        if event["event"] == "outcome":
            outcomes[event["outcome"].job] = event["outcome"]
            teller.tell()
        elif event["event"] == "speed":
            speed = event["text"]
        elif event["event"] == "unusable":
            unusable[event["slot"]] = event["text"]
            typer.echo(event["text"])
        else:
            for line in event["lines"]:
                typer.echo(line)
    if outcomes:
        teller.finish()
    if (engine := outcomes.get("engine")) is not None and not teller.engine_told:
        typer.echo()
        show_lines(engine.lines)
    if speed is not None:
        typer.echo(f"    speed        {speed}")
    show_printed(request.printed)
    points = {task.id: points_of(task, outcomes) for task in tasks}
    finish(given, points, outcomes, unusable, speed, report)


def introduce(given: Submission) -> None:
    """The chapter, and which file fills which slot."""
    chapter = given.chapter
    typer.echo(f"Chapter {chapter.number}, {chapter.title}: stage {chapter.stage}")
    for slot, name in given.parts.items():
        typer.echo(f"{slot} is filled by {name} of {given.file}")
    for slot, name in given.missing.items():
        typer.echo(f"{slot}: {given.file.name} has no {name}; its tasks earn nothing, and minfer's own part stands in for it")


class Teller:
    """Shows tasks in their order, each property as soon as it and all before it are known."""

    def __init__(self, tasks: tuple[Task, ...], outcomes: Mapping[str, Outcome]):
        from minfer.course.jobs import jobs_of

        self.tasks, self.outcomes = tasks, outcomes
        self.waiting = [(task, job) for task in tasks for job in jobs_of(task)]
        self.shown: set[str] = set()
        self.messages: set[str | None] = set()
        self.engine_told = False
        self.last: Task | None = None

    def tell(self) -> None:
        """Whatever is next and known."""
        while self.waiting and (outcome := self.outcomes.get(self.waiting[0][1].id)) is not None:
            task, job = self.waiting.pop(0)
            self._begin(task)
            self._show(job.prop, outcome)

    def finish(self) -> None:
        """The rest, known or not."""
        while self.waiting:
            task, job = self.waiting.pop(0)
            self._begin(task)
            outcome = self.outcomes.get(job.id)
            if outcome is None:
                typer.echo(f"    not checked  {job.prop}")
            else:
                self._show(job.prop, outcome)
        self._end()

    def _begin(self, task: Task) -> None:
        if task is not self.last:
            self._end()
            typer.echo(f"\n{task.id}  {task.title}{' (bonus)' if task.bonus else ''}")
            self.last = task

    def _end(self) -> None:
        from minfer.course.jobs import points_of

        if self.last is not None:
            typer.echo(f"    {points_of(self.last, self.outcomes)} of {self.last.points} points")

    def _show(self, prop: str, outcome: Outcome) -> None:
        """A property that two tasks share is told in full once."""
        again = outcome.job in self.shown
        self.shown.add(outcome.job)
        self.engine_told |= prop == "engine"
        lines = outcome.lines
        if again and len(lines) > 1:
            lines = [f"{lines[0]} (see above)"]
        elif outcome.message is not None and outcome.message in self.messages:
            lines = [lines[0], "as above", *(line for line in lines if line.startswith("replay:"))]
        self.messages.add(outcome.message)
        show_lines(lines)


def show_lines(lines: list[str]) -> None:
    """What came of a property: a line, and what there is to say of it."""
    for i, line in enumerate(lines):
        typer.echo(f"    {line}" if i == 0 else f"        {line}")


def show_printed(printed: list[str]) -> None:
    """What the part wrote to stdout or stderr, cut short."""
    if printed:
        note(f"your file printed {len(printed)} line{'s' * (len(printed) != 1)}; the first:")
        for line in printed[:PRINTED]:
            note(f"    {line[:200]}")


def finish(
    given: Submission,
    points: dict[str, int],
    outcomes: Mapping[str, Outcome],
    unusable: dict[str, str],
    speed: str | None,
    report: Path | None,
) -> None:
    """Points in total, what to do next; keep them, write the report, and exit with 1 where something is missing."""
    from minfer.course import progress
    from minfer.course.jobs import PASSED, bonus_points, core_points

    chapter = given.chapter
    home = progress.home_of(chapter, given.file)
    kept = progress.read(home)
    kept["points"][chapter.id] = {**kept["points"].get(chapter.id, {}), **points}
    kept["checked"][chapter.id] = time.time()
    if not given.file.resolve().is_relative_to(chapter.folder.resolve()):  # the museum's part earns nobody's points
        try:
            progress.write(home, kept)
        except OSError as error:
            note(f"the points cannot be kept: {error}")
    tasks = [chapter.task(task_id) for task_id in points]
    of = sum(task.points for task in tasks if not task.bonus)
    core, bonus = core_points(chapter, points), bonus_points(chapter, points)
    engine = outcomes.get("engine")
    well = core == of and not unusable and (engine is None or engine.status == PASSED)
    typer.echo(
        f"\n{core} of {of} points{f' and {bonus} of a bonus' if bonus else ''}{next_step(chapter, tasks, points, well, bool(unusable))}"
    )
    if report is not None:
        from minfer.bench.report import write_json

        facts = {"chapter": chapter.id, "file": str(given.file), "points": core, "of": of, "bonus": bonus, "tasks": points}
        write_json(
            report,
            {**facts, "passed": well, "unusable": unusable, "speed": speed, "outcomes": [each.to_json() for each in outcomes.values()]},
        )
        note(f"wrote {report}")
    if not well:
        raise typer.Exit(1)


def next_step(chapter: Chapter, tasks: list[Task], points: Mapping[str, int], well: bool, unusable: bool) -> str:
    """Where to go on."""
    from minfer.course.chapter import ChapterError
    from minfer.course.library import find_chapter

    if unusable:
        return "; first mend what is told above"
    missing = next((task for task in tasks if points[task.id] < task.points and not task.bonus), None)
    if missing is not None:
        return f"; next: {missing.id}, {missing.title}. A hint: minfer hint {chapter.id} {missing.id}"
    if not well:
        return "; the tasks are done, but the whole engine is not right with them: see above"
    if len(tasks) < len(chapter.tasks):
        return f". The whole chapter: minfer check {chapter.id}"
    try:
        following = find_chapter(str(chapter.number + 1))
    except ChapterError:
        return ""
    return f". Next: minfer start {following.id} ({following.title})"
