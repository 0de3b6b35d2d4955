"""Syllabi for four and for ten weeks, and the table of points.

From: the chapters' minutes and points. To: the instructor's folder.
"""

from __future__ import annotations

import csv
from pathlib import Path

from minfer.course.chapter import Chapter

READING = 0.5  # of a chapter's minutes: what comes on top for reading and questions
PROJECT = "project: a part of your own, measured on the ladder"


def write(folder: Path, chapters: list[Chapter]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for weeks in (4, 10):
        (folder / f"syllabus-{weeks}-weeks.md").write_text(syllabus(chapters, weeks), encoding="utf-8")
    with (folder / "points.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(points(chapters))


def points(chapters: list[Chapter]) -> list[list[object]]:
    """A row a task and a written question, under a row of headings."""
    rows: list[list[object]] = [["chapter", "title", "task", "what", "points", "bonus"]]
    for chapter in chapters:
        rows += [[chapter.id, chapter.title, task.id, task.title, task.points, int(task.bonus)] for task in chapter.tasks]
        for i, each in enumerate(chapter.written, start=1):
            top = max(int(line.partition(":")[0]) for line in each.rubric)
            rows.append([chapter.id, chapter.title, f"written{i}", "marked by a person", top, 0])
    return rows


def spread(chapters: list[Chapter], weeks: int) -> list[list[Chapter]]:
    """In order, so that the weeks' minutes are as even as whole chapters allow. Weeks may be empty where there are few chapters.

    The longest week is made as short as it can be: a limit is raised until the chapters fit into the weeks.
    """
    limit = max((chapter.minutes for chapter in chapters), default=0)
    while True:
        plan: list[list[Chapter]] = [[]]
        for chapter in chapters:
            if sum(each.minutes for each in plan[-1]) + chapter.minutes > limit:
                plan.append([])
            plan[-1].append(chapter)
        if len(plan) <= weeks:
            return plan + [[] for _ in range(weeks - len(plan))]
        limit += 1


def syllabus(chapters: list[Chapter], weeks: int) -> str:
    lines = [
        f"# {weeks} weeks",
        "",
        f"{len(chapters)} chapters. The hours are those of the tasks; reading and questions take about half as long again.",
        "",
        "| week | chapters | hours of tasks | hours in all | points |",
        "|--:|---|--:|--:|--:|",
    ]
    for week, own in enumerate(spread(chapters, weeks), start=1):
        names = "; ".join(f"{chapter.number}. {chapter.title}" for chapter in own) or PROJECT
        minutes = sum(chapter.minutes for chapter in own)
        hours = f"{minutes / 60:.1f} | {minutes * (1 + READING) / 60:.1f}" if own else " | "
        lines.append(f"| {week} | {names} | {hours} | {sum(chapter.points for chapter in own) or ''} |")
    total = sum(chapter.minutes for chapter in chapters)
    lines += [
        "",
        f"{total / 60:.0f} hours of tasks and {sum(chapter.points for chapter in chapters)} points in all, besides bonus tasks and "
        "written questions. Each chapter builds on the ideas of those before it, but its check does not: a student who is stuck goes "
        "on with the next one, and the check uses minfer's own parts for everything else.",
        "",
    ]
    return "\n".join(lines)
