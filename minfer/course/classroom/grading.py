"""Grades a submission: every property of its chapters, on cases that the submission cannot know, and the points of each task.

The suites run here. The submission's part runs in a process of its own and is called from here (`remote.py`), so what counts is what
came back for each call, and nothing that the submission says of itself.

From: `collect.py`, texts by chapter. To: a Grade; `results.py` writes it.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import minfer
from minfer.course.chapter import ENGINE, Chapter
from minfer.course.checking import find_property
from minfer.course.classroom import originals
from minfer.course.classroom.collect import Collected
from minfer.course.classroom.engine_check import run_engine
from minfer.course.classroom.grades import ChapterGrade, Grade, chapter_grade, failed
from minfer.course.classroom.library import make_library
from minfer.course.classroom.process import Gone, Limits, Process
from minfer.course.classroom.remote import Remote
from minfer.course.classroom.remote_parts import remote, ungradable
from minfer.course.jobs import FAILED, PASSED, SKIPPED, UNWRITTEN, Job, Outcome, all_jobs
from minfer.course.library import all_chapters
from minfer.course.submission import read
from minfer.errors import MinferError
from minfer.testing import checking
from minfer.testing.properties import Case, Differs, Place, Property

MOST_EXAMPLES = 150  # of a property
CHAPTER_SECONDS = 900.0


def grade(found: Collected, chapters: list[Chapter], seed: int, limits: Limits, examples: int | None = None) -> Grade:
    """All chapters, in order. Whatever the submission does, each gets its points and the grader goes on.

    Args:
        chapters: those that count; one that was not handed in has no points.
        seed: hidden from the submission; the same one gives the same cases.
        examples: cases of each property; None: the property's own number, up to MOST_EXAMPLES.
    """
    graded = [grade_chapter(chapter, found.texts.get(chapter.id), seed, limits, examples) for chapter in chapters]
    return Grade(found.name, found.digest, seed, graded, found.notes)


def grade_chapter(chapter: Chapter, text: str | None, seed: int, limits: Limits, examples: int | None = None) -> ChapterGrade:
    """One chapter. text: the submitted file; None where nothing was handed in."""
    begin, notes, outcomes, walls = time.monotonic(), [], {}, []
    jobs = all_jobs(chapter.tasks)
    refused = "nothing was handed in" if text is None else ungradable(chapter)
    if refused is None:
        notes = originals.look(chapter, text)
        try:
            names = names_of(chapter, text)
        except MinferError as error:
            refused = str(error)
    if refused is not None:
        outcomes = {job.id: failed(job, refused, status=SKIPPED if text is None else FAILED) for job in jobs}
    else:
        with open_grader(chapter, text, names, seed, limits, examples) as grader:
            for job in jobs:
                late = time.monotonic() - begin > CHAPTER_SECONDS
                outcomes[job.id] = failed(job, "no time was left for it", status=SKIPPED) if late else grader.run(job)
            walls = grader.process.walls
    graded = chapter_grade(chapter, outcomes)
    graded.notes, graded.walls, graded.seconds = notes, walls, round(time.monotonic() - begin, 1)
    return graded


def names_of(chapter: Chapter, text: str) -> dict[str, str]:
    """Slot → name of the part in the text. Looks at the text only.

    Raises:
        PartError: it is no Python, defines no part of the chapter, or takes one from minfer's own.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "part.py"
        file.write_text(text, encoding="utf-8")
        try:
            return read(chapter, file).parts
        except MinferError as error:
            raise MinferError(str(error).replace(f"{file}", "part.py")) from None
        except (RecursionError, MemoryError):
            raise MinferError("part.py is nested too deeply to be read") from None


@contextmanager
def open_grader(
    chapter: Chapter, text: str, names: dict[str, str], seed: int, limits: Limits, examples: int | None
) -> Iterator[Grader]:
    """A grader with its library; both gone at the end."""
    with tempfile.TemporaryDirectory(prefix="minfer-library-") as folder:
        Path(folder).chmod(0o755)
        make_library(chapter, Path(folder))
        hidden = [str(Path(minfer.__file__).parent), str(chapter.folder.parent)]
        process = Process(Path(folder), text, "triton" in chapter.needs, limits, hidden)
        try:
            yield Grader(chapter, names, process, seed, examples)
        finally:
            process.close()


class Grader:
    """Runs a chapter's jobs on one submission, whose process is started anew where it was lost."""

    def __init__(self, chapter: Chapter, names: dict[str, str], process: Process, seed: int, examples: int | None):
        self.chapter, self.names, self.process, self.seed, self.examples = chapter, names, process, seed, examples
        self.place = Place("cpu", process.interpreted)
        self.properties = {
            job: find_property(job, self.place) for job in all_jobs(chapter.tasks) if job.prop != ENGINE and job.slot in names
        }
        self.parts: dict[str, Remote] = {}
        self.starts = 0
        self.unloadable: str | None = None  # why the file cannot be loaded
        self.last: Case | None = None  # the case that is being run
        self.held = 0

    def run(self, job: Job) -> Outcome:
        """One property, or the engine. Nothing that the submission does gets out of here."""
        if job.prop != ENGINE and job.slot not in self.names:
            return failed(job, f"part.py has no {self.chapter.part[job.slot]}, the part for the slot {job.slot}")
        self.last, self.held = None, 0
        try:
            self.start()
            for part in self.parts.values():
                part.not_written = False
            if job.prop == ENGINE:
                count = run_engine(self.chapter, self.parts, self.names, self.seed_of(job), self.place.interpreted)
                return Outcome(job.id, PASSED, count)
            return self.run_property(job)
        except Gone as gone:
            return failed(job, str(gone), self.held, self.last)
        except NotImplementedError as error:
            return failed(job, f"not written yet: {error}", status=UNWRITTEN)
        except Exception as error:
            return failed(job, in_words(error))

    def start(self) -> None:
        """The submission's process, with the file loaded.

        Raises:
            Gone: it does not come up, cannot load the file, or has been lost too often.
        """
        if self.unloadable is not None:
            raise Gone(self.unloadable)
        if self.process.running is not None:
            return
        if self.starts >= self.process.limits.starts:
            raise Gone("not run: the submission has ended its process, or hung, too often before")
        self.starts += 1
        self.process.start()
        self.parts = {slot: remote(self.process, slot) for slot in self.names}
        try:
            next(iter(self.parts.values())).ask("load", str(self.process.file), self.names)
        except (Gone, Exception) as error:
            self.unloadable = f"part.py cannot be loaded: {in_words(error)}".replace(f"{self.process.file}:", "part.py:")
            self.process.close()
            raise Gone(self.unloadable) from None

    def run_property(self, job: Job) -> Outcome:
        prop = self.properties[job]
        # In Triton's interpreter `check` itself decides: as many as a few seconds allow.
        examples = self.examples or (None if self.place.interpreted else min(MOST_EXAMPLES, prop.examples))
        part = self.parts[job.slot]
        result = checking.check(self.timed(prop), part, self.place, examples, self.seed_of(job))
        facts = {"case": result.case, "replay": result.replay}
        if part.not_written:
            return failed(job, f"not written yet: {result.error or 'see the task'}", result.examples, result.case, UNWRITTEN)
        if result.passed:
            return Outcome(job.id, PASSED, result.examples)
        message = f"{prop.statement} {in_words(result.error)}"
        return Outcome(job.id, FAILED, result.examples, message=message, facts=facts)

    def timed(self, prop: Property) -> Property:
        """The same property within its time, which remembers the case that is being run; nothing is varied."""
        deadline = time.monotonic() + self.process.limits.property_seconds

        def check(part: Remote, case: Case) -> None:
            if time.monotonic() > deadline:
                raise Gone(f"too slow: {self.held} cases took {self.process.limits.property_seconds:.0f} s")
            self.last = dict(case)
            prop.check(part, case)
            self.held += 1

        return replace(prop, check=check, vary=None)

    def seed_of(self, job: Job) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.seed} {self.chapter.id} {job.id}".encode()).digest()[:6], "big")


def in_words(error: BaseException) -> str:
    """One line."""
    if isinstance(error, Differs):
        return f"Expected {error.expected}; came {error.came}"
    return f"{type(error).__name__ + ': ' if not str(error) else ''}{error}".strip().partition("\n")[0]


def chapters_of(found: Collected, chapter: Chapter | None) -> list[Chapter]:
    """The chapters that count: the one that was asked for, else those that were handed in, in order."""
    return [chapter] if chapter is not None else [each for each in all_chapters() if each.id in found.texts]
