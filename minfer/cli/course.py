"""`minfer start`, `status`, `hint` and `diff`: a student's way through the chapters.

From: the command line. To: `minfer/course`; files of the student's own, which are written once and never again.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import note, print_json, print_table

if TYPE_CHECKING:
    from minfer.course.chapter import Chapter

Name = Annotated[str, typer.Argument(metavar="CHAPTER", help="ch04, 4, 04_continuous or continuous.")]
Folder = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Where your chapters are.")]
HERE = Path()


def start(
    name: Name,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where your chapters are to be.")] = HERE,
) -> None:
    """Copy a chapter's starter to DIR/NN_slug/part.py, for you to edit. A file that is there already is left alone."""
    from minfer.course.chapter import PART
    from minfer.course.library import find_chapter
    from minfer.errors import MinferError

    chapter = find_chapter(name)
    target = to / chapter.name / PART
    if target.exists():
        if target.samefile(chapter.starter):
            raise MinferError(f"{target} is minfer's own starter; choose another folder for yours: minfer start {chapter.id} --to DIR")
        note(f"{target} is there already, and stays as it is; for a fresh starter: minfer start {chapter.id} --to DIR")
        raise typer.Exit(1)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(chapter.starter.read_text(encoding="utf-8"))
    except OSError as error:
        raise MinferError(f"{target} cannot be written: {error.strerror}; choose another folder with --to") from None
    typer.echo(f"Chapter {chapter.number}, {chapter.title}: edit {target}")
    for task in chapter.tasks:
        typer.echo(f"    {task.id}  {task.title}, {task.points} points{' (bonus)' if task.bonus else ''}")
    typer.echo(f"the text:  {chapter.folder / 'README.md'}")
    typer.echo(f"to check:  minfer check {chapter.id}{'' if to.resolve() == HERE.resolve() else f' {target}'}")


def status(
    folder: Folder = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What you have started, and the points of the last check of each chapter."""
    from minfer.course.library import all_chapters

    rows = [state(chapter, folder) for chapter in all_chapters()]
    if as_json:
        print_json({"chapters": rows})
        return
    print_table(
        "Your chapters",
        ["", "chapter", "state", "tasks", "file"],
        [[row["chapter"], row["title"], row["state"], tasks_in_words(row["tasks"]), row["file"]] for row in rows],
    )


def state(chapter: Chapter, folder: Path) -> dict:
    """One chapter: "not started", "started", or the points of the last check."""
    from minfer.course import progress
    from minfer.course.chapter import PART
    from minfer.course.jobs import core_points

    file = folder / chapter.name / PART
    kept = progress.read(folder)
    points = {task: value for task, value in kept["points"].get(chapter.id, {}).items() if isinstance(value, int)}
    text = "not started"
    if file.is_file():
        text = "started"
        if chapter.id in kept["checked"]:
            text = f"{core_points(chapter, points)} of {chapter.points} points"
            if file.stat().st_mtime > kept["checked"][chapter.id]:
                text += ", edited since"
    tasks = {task.id: (points.get(task.id, 0), task.points) for task in chapter.tasks} if points else {}
    return {
        "chapter": chapter.id,
        "title": chapter.title,
        "state": text,
        "tasks": tasks,
        "file": str(file) if file.is_file() else None,
    }


def tasks_in_words(tasks: dict[str, tuple[int, int]]) -> str | None:
    """task1 4/4, task2 0/6"""
    return ", ".join(f"{task} {earned}/{of}" for task, (earned, of) in tasks.items()) or None


def hint(
    name: Name,
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="task1, task2, ...")],
    more: Annotated[bool, typer.Option("--more", help="One step more than so far.")] = False,
    folder: Folder = HERE,
) -> None:
    """A hint for a task: first a question, then where to look, then nearly the code. Each --more shows one step more."""
    from minfer.course import progress
    from minfer.course.library import find_chapter

    chapter = find_chapter(name)
    task = chapter.task(task_id)
    key = f"{chapter.id} {task.id}"
    kept = progress.read(folder)
    before = kept["hints"].get(key, 0)
    shown = min(max(before + more, 1), len(task.hints))
    for step, text in enumerate(task.hints[:shown], start=1):
        typer.echo(f"{step}. {text}")
    if shown < len(task.hints):
        note(f"{len(task.hints) - shown} more: minfer hint {chapter.id} {task.id} --more")
    if shown != before:
        try:
            progress.write(folder, {**kept, "hints": {**kept["hints"], key: shown}})
        except OSError as error:
            note(f"how many hints were shown cannot be kept: {error}")


def diff(
    first: Name,
    second: Annotated[str, typer.Argument(metavar="CHAPTER", help="The later chapter.")],
) -> None:
    """What the stage of one chapter swaps for the other, and how the sources differ. This shows solutions."""
    from minfer.course.library import find_chapter

    before, after = find_chapter(first), find_chapter(second)
    slots = after.built.differs(before.built)
    if not slots:
        note(f"{before.id} and {after.id} end with the same parts")
    for slot in slots:
        old, new = before.reference(slot), after.reference(slot)
        typer.echo(f"{slot}: {old} → {new}")
        sources = [source_of(part) for part in (old, new)]
        names = [part.rpartition(":")[0].replace(".", "/") + ".py" for part in (old, new)]
        for line in difflib.unified_diff(*sources, *names, lineterm=""):
            typer.echo(line)
        typer.echo()


def source_of(part: str) -> list[str]:
    """The lines of the file that a part of minfer's lives in, without the comments that mark solutions."""
    import minfer
    from minfer.course.regions import without_comments

    path = Path(minfer.__file__).parent.parent / (part.rpartition(":")[0].replace(".", "/") + ".py")
    return without_comments(path.read_text(encoding="utf-8")).splitlines()
