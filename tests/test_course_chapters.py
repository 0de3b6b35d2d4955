"""chapter.toml: what it may say, the message where it says something else, and which chapter a name means."""

from __future__ import annotations

import pytest
from course_fixtures import NORM, TOML, write_chapter

from minfer.course.chapter import ChapterError
from minfer.course.jobs import PASSED, Outcome, all_jobs, core_points, points_of
from minfer.course.library import all_chapters, find_chapter


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"number": "5"}, "number = 5, and the folder is 04_continuous"),
        ({"stage": '"contiguous"'}, "stage = 'contiguous' is no stage; the stages are hf, decoder"),
        ({"title": '""'}, "title is empty"),
        ({"minutes": '"60"'}, "minutes = '60' must be of type int"),
        ({"minutes": "true"}, "minutes = True must be of type int"),
        ({"needs": '["cuda"]'}, "needs = cuda is not known; known are triton, ray"),
        ({"scheduler": '"Scheduler"'}, "scheduler = 'Scheduler', and the stage continuous has minfer.scheduler.continuous:"),
        ({"points": "4"}, "the core tasks have 8 points, not 10"),
        ({"hints": '["a"]'}, "task 1: task1 needs at least 1 point, a property, and 3 hints"),
        ({"properties": '["norm.sum"]'}, "'norm.sum' must be 'engine' or begin with a slot of this chapter: scheduler"),
        ({"id": '"first"'}, "id = 'first' must be as task1"),
        ({"id": '"task2"'}, "two tasks have one id: task2, task2, task3"),
        ({"summary": '"a"\nmore = 1'}, "more is not known; known are before, "),
        ({"summary": '"a"\n[swap]\npolicy = "a:b"'}, "swap: policy is no slot that the chapter is about: scheduler"),
        ({"summary": '"a"\n[swap]\nscheduler = "a:B"'}, "scheduler = 'ContinuousScheduler', and the stage continuous has a:B"),
        ({"summary": "a"}, "chapter.toml cannot be read: "),
    ],
)
def test_what_cannot_be(tmp_path, replaced, message):
    """The file, what it says, and what it may say."""
    with pytest.raises(ChapterError) as error:
        write_chapter(tmp_path, **replaced)
    assert message in str(error.value)


def test_a_folder_without_a_number(tmp_path):
    with pytest.raises(ChapterError, match="a chapter's folder is named as in 04_continuous"):
        write_chapter(tmp_path, name="continuous")


@pytest.mark.parametrize("name", ["ch04", "4", "04", "ch4", "CH04", "chapter4", "04_continuous", "04_continuous/", "continuous"])
def test_all_names_of_a_chapter(tmp_path, name):
    """By number or by name."""
    for each in (write_chapter(tmp_path), write_chapter(tmp_path, NORM, "07_fused_norm")):
        assert each in all_chapters(tmp_path)
    assert find_chapter(name, tmp_path).id == "ch04"
    assert find_chapter("fused-norm", tmp_path).id == "ch07"


@pytest.mark.parametrize("name", ["ch05", "14", "7", "0", "cont", "", "ch"])
def test_no_such_chapter(tmp_path, name):
    """The message lists those that there are."""
    write_chapter(tmp_path)
    write_chapter(tmp_path, NORM, "17_fused_norm", number="17")
    with pytest.raises(ChapterError, match=r"there are ch04 \(continuous\)"):
        find_chapter(name, tmp_path)


def test_a_property_that_fails_costs_a_point(tmp_path):
    """Whatever share of a task it is; a bonus is counted apart."""
    chapter = write_chapter(tmp_path)
    right = {job.id: Outcome(job.id, PASSED) for job in all_jobs(chapter.tasks)}
    assert [points_of(task, right) for task in chapter.tasks] == [6, 4, 2]
    assert core_points(chapter, {task.id: points_of(task, right) for task in chapter.tasks}) == 10
    for job in right:
        less = {**right, job: Outcome(job, "failed")}
        assert sum(points_of(task, less) for task in chapter.tasks) <= 11
        assert sum(points_of(task, {key: value for key, value in right.items() if key != job}) for task in chapter.tasks) <= 11
    assert not any(points_of(task, {}) for task in chapter.tasks)
    two_of_three = {f"scheduler.{name}": Outcome(name, PASSED) for name in ("budget", "oldest")}
    assert points_of(chapter.tasks[1], two_of_three) == 2, "2.67 of 4, rounded down"


def test_a_property_with_a_focus_is_another_job(tmp_path):
    """Once per focus, and the engine last."""
    chapter = write_chapter(tmp_path, properties='["engine", "scheduler.tokens"]')
    names = [f"scheduler.{name}" for name in ("tokens", "budget", "oldest", "work")]
    assert [job.id for job in all_jobs(chapter.tasks)] == [*names, "engine"]
    text = TOML.replace('points = 6\n', 'points = 6\nfocus = { ahead = 0 }\n').replace("scheduler.budget", "scheduler.tokens")
    jobs = all_jobs(write_chapter(tmp_path / "other", text).tasks)
    assert [job.id for job in jobs][:3] == ['scheduler.tokens {"ahead": 0}', 'scheduler.ahead {"ahead": 0}', "scheduler.tokens"]
    assert jobs[0].held == {"ahead": 0}
