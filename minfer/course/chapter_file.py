"""Reads a chapter's `chapter.toml`, and checks it. `chapters/FORMAT.md` tells what may stand there.

From: `chapters/NN_slug`. To: `library.py`, which finds chapters by name.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from minfer.course.chapter import ENGINE, Chapter, ChapterError, SelfCheck, Task, Written
from minfer.stages import STAGES

FILE = "chapter.toml"
NEEDS = ("triton", "ray")
HINTS = 3
POINTS = 10  # of a chapter's core tasks
FOLDER = re.compile(r"(\d\d)_(\w+)")


class Reader:
    """Takes values out of a table of the file, and says where it stands when one is missing, unknown or of another type."""

    def __init__(self, path: Path, where: str, table: Any):
        self.path, self.where = path, where
        if not isinstance(table, dict):
            raise self.error(f"must be a table; it is {table!r}")
        self.table, self.known = table, set()

    def error(self, text: str) -> ChapterError:
        return ChapterError(f"{self.path}{self.where}: {text}")

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        """The value, which must be there where no default is given."""
        self.known.add(key)
        value = self.table.get(key, default)
        if value is None:
            raise self.error(f"{key} is missing")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.error(f"{key} = {value!r} must be of type {kind.__name__}")
        if kind is str and not value and default is None:
            raise self.error(f"{key} is empty")
        return value

    def strings(self, key: str, default: Any = None) -> tuple[str, ...]:
        values = self.take(key, list, default)
        if not all(isinstance(value, str) and value for value in values):
            raise self.error(f"{key} = {values!r} must be a list of strings")
        return tuple(values)

    def tables(self, key: str, default: Any = None) -> list[Reader]:
        values = self.take(key, list, default)
        return [Reader(self.path, f"{self.where}, {key} {i}", value) for i, value in enumerate(values, start=1)]

    def end(self) -> None:
        """Nothing else may be there."""
        if unknown := sorted(set(self.table) - self.known):
            raise self.error(f"{', '.join(unknown)} is not known; known are {', '.join(sorted(self.known))}")


def load_chapter(folder: Path) -> Chapter:
    """Read and check the chapter in a folder.

    Raises:
        ChapterError: the folder's name, or something in its file, is not as it must be; the message says what.
    """
    path = folder / FILE
    match = FOLDER.fullmatch(folder.name)
    if match is None:
        raise ChapterError(f"{folder}: a chapter's folder is named as in 04_continuous")
    try:
        read = Reader(path, "", tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ChapterError(f"{path} cannot be read: {error}") from None
    parts = Reader(path, ", part", read.take("part", dict))
    kept = Reader(path, ", keep", read.take("keep", dict, {}))
    swapped = Reader(path, ", swap", read.take("swap", dict, {}))
    part = {slot: parts.take(slot, str) for slot in parts.table}
    chapter = Chapter(
        folder=folder,
        number=read.take("number", int),
        title=read.take("title", str),
        stage=read.take("stage", str),
        before=read.take("before", str, ""),
        minutes=read.take("minutes", int),
        hardware=read.take("hardware", str),
        needs=read.strings("needs", []),
        summary=read.take("summary", str),
        swap={slot: swapped.take(slot, str) for slot in swapped.table},
        part=part,
        keep={slot: kept.strings(slot, [name]) for slot, name in part.items()},
        tasks=tuple(_task(each) for each in read.tables("task")),
        selfchecks=tuple(_selfcheck(each) for each in read.tables("selfcheck", [])),
        written=tuple(_written(each) for each in read.tables("written", [])),
    )
    for each in (read, kept, swapped):
        each.end()
    _check(chapter, read, int(match[1]))
    return chapter


def _task(read: Reader) -> Task:
    task = Task(
        id=read.take("id", str),
        title=read.take("title", str),
        points=read.take("points", int),
        properties=read.strings("properties"),
        hints=read.strings("hints"),
        bonus=read.take("bonus", bool, False),
        focus=read.take("focus", dict, {}),
    )
    read.end()
    if not re.fullmatch(r"task\w+", task.id):
        raise read.error(f"id = {task.id!r} must be as task1")
    if task.points < 1 or not task.properties or len(task.hints) != HINTS:
        raise read.error(f"{task.id} needs at least 1 point, a property, and {HINTS} hints")
    return task


def _selfcheck(read: Reader) -> SelfCheck:
    question = SelfCheck(read.take("question", str), read.take("answer", str), read.take("unit", str, ""))
    read.end()
    return question


def _written(read: Reader) -> Written:
    question = Written(read.take("question", str), read.strings("rubric"), read.take("sample", dict, {}))
    read.end()
    if question.sample and set(question.sample) != {"full", "half", "none"}:
        raise read.error(f"sample has {', '.join(question.sample)}; it must have full, half and none")
    return question


def _check(chapter: Chapter, read: Reader, number: int) -> None:
    """What must fit together."""
    if chapter.number != number:
        raise read.error(f"number = {chapter.number}, and the folder is {chapter.name}")
    for key in ("stage", "before"):
        name = getattr(chapter, key)
        if name and name not in STAGES:
            raise read.error(f"{key} = {name!r} is no stage; the stages are {', '.join(STAGES)}")
    if unknown := set(chapter.swap) - set(chapter.part):
        raise read.error(f"swap: {', '.join(sorted(unknown))} is no slot that the chapter is about: {', '.join(chapter.part)}")
    if unknown := set(chapter.needs) - set(NEEDS):
        raise read.error(f"needs = {', '.join(unknown)} is not known; known are {', '.join(NEEDS)}")
    slots = chapter.built.parts()
    for slot, name in chapter.part.items():
        if slot not in slots:
            raise read.error(f"part: no slot is called {slot!r}; the slots are {', '.join(slots)}")
        if chapter.reference(slot).rpartition(":")[2] != name:
            raise read.error(f"part: {slot} = {name!r}, and the stage {chapter.stage} has {chapter.reference(slot)}")
        if name not in chapter.keep[slot]:
            raise read.error(f"keep: {slot} lacks {name!r}, the part itself")
    ids = [task.id for task in chapter.tasks]
    if len(set(ids)) < len(ids):
        raise read.error(f"two tasks have one id: {', '.join(ids)}")
    for task in chapter.tasks:
        for prop in task.properties:
            if prop != ENGINE and prop.partition(".")[0] not in chapter.part:
                slots = chapter.part
                raise read.error(f"{task.id}: {prop!r} must be {ENGINE!r} or begin with a slot of this chapter: {', '.join(slots)}")
    if chapter.points != POINTS:
        raise read.error(f"the core tasks have {chapter.points} points, not {POINTS}")
