"""What a grade consists of: points by task, and what came of each property.

From: `grading.py`. To: `results.py` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from minfer.course.chapter import Chapter
from minfer.course.classroom.collect import Collected
from minfer.course.jobs import FAILED, SKIPPED, Job, Outcome, all_jobs, jobs_of, points_of
from minfer.testing.properties import Case

UNFINISHED = "the grader did not come to its end"


@dataclass
class TaskGrade:
    """Points of one task, and what came of its properties."""

    id: str
    title: str
    points: int
    max_points: int
    bonus: bool
    outcomes: list[Outcome]


@dataclass
class ChapterGrade:
    """One chapter of a submission. `notes` are for people: what was odd."""

    id: str
    title: str
    tasks: list[TaskGrade]
    notes: list[str] = field(default_factory=list)
    walls: list[str] = field(default_factory=list)  # that stood around the submission
    seconds: float = 0.0

    @property
    def points(self) -> int:
        return sum(task.points for task in self.tasks)

    @property
    def max_points(self) -> int:
        return sum(task.max_points for task in self.tasks if not task.bonus)


@dataclass
class Grade:
    """A submission."""

    name: str
    digest: str
    seed: int
    chapters: list[ChapterGrade]
    notes: list[str]

    @property
    def points(self) -> int:
        return sum(chapter.points for chapter in self.chapters)

    @property
    def max_points(self) -> int:
        return sum(chapter.max_points for chapter in self.chapters)


def unfinished(found: Collected, chapters: list[Chapter], seed: int) -> Grade:
    """The grade of a submission that has not been graded: no points."""
    return Grade(found.name, found.digest, seed, [chapter_grade(each, {}) for each in chapters], [*found.notes, UNFINISHED])


def chapter_grade(chapter: Chapter, outcomes: dict[str, Outcome]) -> ChapterGrade:
    """Points from outcomes; a job without one was not run."""
    outcomes = {job.id: failed(job, UNFINISHED, status=SKIPPED) for job in all_jobs(chapter.tasks)} | outcomes
    tasks = []
    for task in chapter.tasks:
        own = [outcomes[job.id] for job in jobs_of(task)]
        tasks.append(TaskGrade(task.id, task.title, points_of(task, outcomes), task.points, task.bonus, own))
    return ChapterGrade(chapter.id, chapter.title, tasks)


def failed(job: Job, message: str, examples: int = 0, case: Case | None = None, status: str = FAILED) -> Outcome:
    return Outcome(job.id, status, examples, message=message, facts={"case": case})
