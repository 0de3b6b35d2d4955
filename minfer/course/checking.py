"""Checks a student's parts, in the process that has loaded them: the jobs of a chapter, one by one.

From: `worker.py`, or a test. To: an Outcome a job. Loading may run anything that the file says; `supervise.py` keeps that in a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import torch

import minfer
from minfer.course.chapter import Chapter, ChapterError
from minfer.course.jobs import FAILED, PASSED, UNWRITTEN, Job, Outcome
from minfer.errors import PartError
from minfer.testing import checking
from minfer.testing.limits import limited
from minfer.testing.properties import OutOfTime, Place, Property
from minfer.testing.report import explain, headline, to_json, what_went_wrong
from minfer.testing.stubs import unwritten
from minfer.testing.suites import suite_of
from minfer.testing.target import INTERPRET, Target, find_target

CASE_SECONDS, SLOW_CASE_SECONDS = 5.0, 60.0  # a kernel may have to be compiled, or to be interpreted
HASTY = 0.4  # of that time is left once a case has taken too long
EFFORT, LITTLE_EFFORT = 8.0, 2.0  # seconds for making the first failure's case simple, and those of all later ones


def interpret_if_needed(chapter: Chapter) -> bool:
    """Have Triton interpret kernels where the chapter has some and there is no GPU. Must come before Triton is imported."""
    if "triton" in chapter.needs and not torch.cuda.is_available() and "triton" not in sys.modules:
        os.environ[INTERPRET] = "1"
    return os.environ.get(INTERPRET) == "1"


def load(chapter: Chapter, slot: str, name: str) -> Target:
    """The student's part in a slot; or the museum's, which may take minfer's own where it has no fault.

    Raises:
        PartError: it cannot be imported, does not fit the slot, or is minfer's own under another name.
    """
    target = find_target(slot, name)
    home, package = target.defined_in.resolve(), Path(minfer.__file__).parent.resolve()
    if home.is_relative_to(package) and not target.file.resolve().is_relative_to(chapter.folder.resolve()):
        raise PartError(f"{name} is minfer's own part, from {home}; write it in your file")
    return target


def find_property(job: Job, place: Place) -> Property:
    """The property of the slot's suite, with the job's fields held at their values.

    Raises:
        ChapterError: the suite has none of that name, or its cases no such field.
    """
    suite, name = suite_of(job.slot, promised=True), job.prop.partition(".")[2]
    prop = next((prop for prop in suite if prop.name == name), None)
    if prop is None:
        raise ChapterError(f"{job.prop}: the suite of {job.slot} has no such property; it has {', '.join(each.name for each in suite)}")
    if not job.held:
        return prop
    known = checking.simplest(prop, place)
    if unknown := sorted(set(job.held) - set(known)):
        raise ChapterError(f"focus of {job.prop}: its cases have no {', '.join(unknown)}; they have {', '.join(known)}")
    return checking.narrowed(prop, job.held)


def check_job(
    job: Job,
    targets: Mapping[str, Target],
    examples: int | None = None,
    seed: int = 0,
    effort: float = EFFORT,
    shrink: bool = True,
    hasty: bool = False,
) -> Outcome:
    """Draw cases of the job's property and try the part on them. effort, shrink: see `minfer.testing.checking.check`."""
    target = targets[job.slot]
    slow = target.place.interpreted or target.place.device != "cpu"
    seconds = (SLOW_CASE_SECONDS if slow else CASE_SECONDS) * (HASTY if hasty else 1)
    prop = limited(find_property(job, target.place), seconds, target.defined_in)
    result = checking.check(prop, target.part, target.place, examples, seed, shrink, effort)
    facts = to_json(result, target)
    if result.passed:
        return Outcome(job.id, PASSED, result.examples, [headline(result, job.prop)], facts=facts)
    if result.status == UNWRITTEN:
        return Outcome(job.id, UNWRITTEN, result.examples, [headline(result, job.prop)], stub=unwritten(result.error), facts=facts)
    lines = [headline(result, job.prop), *explain(result, target)]
    message = "; ".join(what_went_wrong(result.error, target))
    return Outcome(job.id, FAILED, result.examples, lines, message, facts={**facts, "out_of_time": isinstance(result.error, OutOfTime)})
