"""What every chapter must keep to: its starter earns nothing, its reference everything, and whatever is wrong loses a point.

Kernels are interpreted where there is no GPU, in a process of their own and on few cases.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
import torch
from course_fixtures import BY_CHAPTER, CHAPTERS, MUTANTS, NOT_ASKED, ROOT

from minfer.course import checking, engine_run
from minfer.course.chapter import ENGINE, Chapter
from minfer.course.chapter_file import FILE, load_chapter
from minfer.course.jobs import FAILED, PASSED, UNWRITTEN, Job, Outcome, all_jobs, core_points, points_of
from minfer.course.library import folders
from minfer.course.starter import generate
from minfer.course.submission import read
from minfer.course.supervise import Request, events
from minfer.resolve import missing
from minfer.stages import TO_MANY_DEVICES, find_stage
from minfer.testing.properties import CPU
from minfer.testing.suites import suite_of
from minfer.testing.target import find_target

pytestmark = pytest.mark.slow

FEW = 8  # examples of a property, for parts that are right; one where they are interpreted, and their own tests draw more
UNSENT, ITS_MUTANT = "large-cache", "offsets_of_32_bits"  # gigabytes, which a grader does not send to the process of a part


def asks_for_all(chapter: Chapter, slot: str) -> bool:
    """Whether every property of the slot's suite earns points: then `test_mutants.py` has shown that each mutant loses some."""
    return {f"{slot}.{prop.name}" for prop in suite_of(slot) if prop.name != UNSENT} <= {job.id for job in all_jobs(chapter.tasks)}


MUTANTS_OF = [
    pytest.param(chapter, path, id=f"{chapter.id}-{slot}-{path.stem}")
    for chapter in CHAPTERS
    for slot in chapter.part
    if not asks_for_all(chapter, slot)
    for path in sorted((MUTANTS / slot).glob("*.py"))
    if path.stem != ITS_MUTANT and (chapter.id, f"{slot}/{path.stem}") not in NOT_ASKED
]


def apart(chapter: Chapter) -> bool:
    """Whether its kernels must be interpreted, in another process."""
    if "ray" in chapter.needs:
        pytest.importorskip("ray")
    if "triton" not in chapter.needs:
        return False
    pytest.importorskip("triton")
    return not torch.cuda.is_available()


def outcomes_of(
    chapter: Chapter, parts: dict[str, str], examples: int | None = FEW, engine: bool = True, until_failure: bool = False
) -> dict[str, Outcome]:
    """By job; without shrinking where the process is this one. until_failure: another process ends with the first."""
    jobs = [job for job in all_jobs(chapter.tasks) if job.prop == ENGINE or job.slot in parts]
    if apart(chapter):
        outcomes = {}
        for event in events(Request(chapter, parts, jobs, engine, False, 1 if examples else None)):
            assert event["event"] != "unusable", event
            if event["event"] == "outcome":
                outcomes[event["outcome"].job] = event["outcome"]
                if until_failure and event["outcome"].status == FAILED:
                    break
        return outcomes
    targets = {slot: checking.load(chapter, slot, name) for slot, name in parts.items()}
    outcomes = [checking.check_job(job, targets, examples, shrink=False) for job in jobs if job.prop != ENGINE]
    if engine:
        outcomes.append(engine_run.compare(chapter, targets, interpreted=False))
    return {outcome.job: outcome for outcome in outcomes}


@functools.cache
def fails(job: Job, name: str) -> bool:
    """Whether a mutant has not got that property; two chapters may ask for it."""
    target = find_target(job.slot, name)
    return checking.check_job(job, {job.slot: target}, shrink=False).status == FAILED


def points(chapter: Chapter, outcomes: dict[str, Outcome]) -> dict[str, int]:
    return {task.id: points_of(task, outcomes) for task in chapter.tasks}


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


def test_every_chapter_can_be_read():
    """chapter.toml says what it must, in every folder that has one; the numbers are 1, 2, 3 and so on."""
    found = [load_chapter(folder) for folder in folders(ROOT / "chapters")]
    assert [chapter.number for chapter in found] == list(range(1, len(found) + 1)) or len(found) < 13
    assert all((chapter.folder / FILE).is_file() for chapter in found)


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_properties_exist(chapter):
    """Every property that a task names is in its slot's suite, and a focus is a field of its cases."""
    for job in all_jobs(chapter.tasks):
        if job.prop != ENGINE:
            checking.find_property(job, CPU)


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_the_starter_earns_nothing(chapter, tmp_path):
    """No property passes before something is written; what is missing is told by its task, and nothing counts as a failure."""
    given = read(chapter, write(tmp_path, generate(chapter)))
    outcomes = outcomes_of(chapter, {slot: given.name(slot) for slot in given.parts})
    assert not any(points(chapter, outcomes).values()), outcomes
    assert any(outcome.status == UNWRITTEN for outcome in outcomes.values())
    for outcome in outcomes.values():
        assert outcome.status != FAILED, outcome
        assert outcome.stub is None or outcome.stub.startswith(f"{chapter.id} task"), outcome


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_the_reference_earns_everything(chapter, tmp_path):
    """The starter with its solutions left in, in a file of its own; the whole engine gives the right tokens with it."""
    given = read(chapter, write(tmp_path, generate(chapter, solved=True)))
    assert not given.missing
    outcomes = outcomes_of(chapter, {slot: given.name(slot) for slot in given.parts})
    assert core_points(chapter, points(chapter, outcomes)) == chapter.points, outcomes
    assert all(points_of(task, outcomes) == task.points for task in chapter.tasks)
    assert outcomes[ENGINE].status == PASSED, outcomes[ENGINE]


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_the_museum_loses_a_point(chapter):
    """The fault that is to be found in museum.py is caught."""
    given = read(chapter, chapter.folder / "museum.py")
    parts = {slot: given.name(slot) for slot in given.parts}
    for examples in (FEW, None):  # few may do, and are quick
        outcomes = outcomes_of(chapter, parts, examples, engine=False, until_failure=True)
        if any(outcome.status == FAILED for outcome in outcomes.values()):
            return
    pytest.fail(f"no property fails of {given.file}: {outcomes}")


@pytest.mark.parametrize(("chapter", "path"), MUTANTS_OF)
def test_a_mutant_loses_a_point(chapter, path):
    """Some property that earns points fails of it, though not all of the suite do."""
    slot = path.parent.name
    name = f"{path}:{'Mutant' if 'class Mutant' in path.read_text() else 'mutant'}"
    if missing(name):
        pytest.skip(f"it needs {', '.join(missing(name))}")
    jobs = [job for job in all_jobs(chapter.tasks) if job.slot == slot]
    caught = any(fails(job, name) for job in jobs)
    asked = [prop.name for prop in suite_of(slot, promised=True) if any(job.prop == f"{slot}.{prop.name}" for job in jobs)]
    assert caught, f"{chapter.id} asks for {asked} of {slot}, and none fails of {path.name}: {path.read_text().splitlines()[0]}"


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_nothing_needs_a_later_chapter(chapter):
    """Neither the starter nor the engine that is checked takes a part that only a later stage brings in."""
    at = TO_MANY_DEVICES.index(find_stage(chapter.stage))
    allowed = {part.partition(":")[0] for stage in (*TO_MANY_DEVICES[: at + 1], chapter.built) for part in stage.parts().values()}
    later = {part.partition(":")[0] for stage in TO_MANY_DEVICES[at + 1 :] for part in stage.parts().values()} - allowed
    imported = set()
    for node in ast.walk(ast.parse(generate(chapter, solved=True))):
        if isinstance(node, ast.ImportFrom):
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    assert not imported & later
    used = {part.partition(":")[0] for part in engine_run.stage_here(chapter).parts().values()}
    assert used <= allowed
