"""A chapter of the course, and what it consists of.

From: `chapter_file.py` reads one from its folder. To: the starters, the commands and the grader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minfer.errors import MinferError
from minfer.stages import Stage, find_stage

PART = "part.py"
ENGINE = "engine"  # the property of the whole engine


class ChapterError(MinferError):
    """A chapter's files say something that cannot be, or no chapter is called so."""


@dataclass(frozen=True)
class Task:
    """A piece of work, with its points and the properties that earn them."""

    id: str
    title: str
    points: int
    properties: tuple[str, ...]  # "slot.property", or "engine"
    hints: tuple[str, ...]
    bonus: bool = False
    focus: dict[str, Any] = field(default_factory=dict)  # fields of the properties' cases, and the values that they are held at


@dataclass(frozen=True)
class SelfCheck:
    """A question with a numeric answer, which a function in the chapter's answers.py computes."""

    question: str
    answer: str
    unit: str


@dataclass(frozen=True)
class Written:
    """A question that people mark. `sample` has an answer for full, half and no marks."""

    question: str
    rubric: tuple[str, ...]
    sample: dict[str, str]


@dataclass(frozen=True)
class Chapter:
    """One chapter. `part` and `keep` go by slot."""

    folder: Path
    number: int
    title: str
    stage: str
    before: str  # "" for the first
    minutes: int
    hardware: str
    needs: tuple[str, ...]
    summary: str
    swap: dict[str, str]  # parts from off the ladder that the stage gets, by slot; what the chapter builds if its part is one
    part: dict[str, str]
    keep: dict[str, tuple[str, ...]]
    tasks: tuple[Task, ...]
    selfchecks: tuple[SelfCheck, ...]
    written: tuple[Written, ...]

    @property
    def id(self) -> str:
        """ch04"""
        return f"ch{self.number:02}"

    @property
    def name(self) -> str:
        """04_continuous: its folder here and in a student's own."""
        return self.folder.name

    @property
    def starter(self) -> Path:
        return self.folder / PART

    @property
    def points(self) -> int:
        """Of the core tasks."""
        return sum(task.points for task in self.tasks if not task.bonus)

    @property
    def built(self) -> Stage:
        """The stage that the chapter ends with."""
        return find_stage(self.stage).with_parts(**self.swap)

    def reference(self, slot: str) -> str:
        """The part that the reader's own stands in for."""
        return self.built.parts()[slot]

    def task(self, task_id: str) -> Task:
        """Raises ChapterError where the chapter has no such task."""
        for task in self.tasks:
            if task.id == task_id:
                return task
        raise ChapterError(f"{self.id} has no task {task_id!r}; its tasks are {', '.join(task.id for task in self.tasks)}")
