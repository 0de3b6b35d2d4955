"""What is to be checked of a chapter, and what it is worth: jobs, their outcomes, and the points of the tasks.

From: `chapter.toml`. To: `checking.py` does the jobs in the worker's process; the parent and the grader count the points.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from minfer.course.chapter import ENGINE, Chapter, Task

PASSED, FAILED, UNWRITTEN, SKIPPED = "passed", "failed", "not written", "skipped"


@dataclass(frozen=True)
class Job:
    """One property, with the fields of its cases that are held at some value; or the whole engine."""

    prop: str  # "slot.property", or "engine"
    focus: str = "{}"  # JSON

    @property
    def slot(self) -> str:
        return self.prop.partition(".")[0]

    @property
    def held(self) -> dict[str, Any]:
        return json.loads(self.focus)

    @property
    def id(self) -> str:
        return self.prop if self.focus == "{}" else f"{self.prop} {self.focus}"


@dataclass(frozen=True)
class Outcome:
    """What came of a job. `lines` are for people, the most telling ones first."""

    job: str  # its id
    status: str
    examples: int = 0
    lines: list[str] = field(default_factory=list)
    message: str | None = None  # of a failure, in one line
    stub: str | None = None  # what is still to be written, as the starter says it
    facts: dict[str, Any] = field(default_factory=dict)  # for programs: case, replay, ...

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def jobs_of(task: Task) -> list[Job]:
    """The task's properties; the engine has no cases to hold."""
    focus = json.dumps(task.focus, sort_keys=True)
    return [Job(prop) if prop == ENGINE else Job(prop, focus) for prop in task.properties]


def all_jobs(tasks: Iterable[Task]) -> list[Job]:
    """Each job once, in order; the engine last."""
    jobs = dict.fromkeys(job for task in tasks for job in jobs_of(task))
    return sorted(jobs, key=lambda job: job.prop == ENGINE)


def points_of(task: Task, outcomes: Mapping[str, Outcome]) -> int:
    """Shared among the properties and rounded down: one that does not hold costs a point at least."""
    jobs = jobs_of(task)
    passed = sum(job.id in outcomes and outcomes[job.id].status == PASSED for job in jobs)
    return task.points * passed // len(jobs)


def core_points(chapter: Chapter, points: Mapping[str, int]) -> int:
    """Of all tasks but the bonus ones, by task's id."""
    return sum(points.get(task.id, 0) for task in chapter.tasks if not task.bonus)


def bonus_points(chapter: Chapter, points: Mapping[str, int]) -> int:
    return sum(points.get(task.id, 0) for task in chapter.tasks if task.bonus)
