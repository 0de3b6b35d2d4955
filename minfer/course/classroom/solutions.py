"""The solutions book, for instructors: each task's solution with the reason that its comment gives, hints, answers, rubrics, samples.

From: the solution regions of the reference parts, chapter.toml, answers.py. To: Markdown files in the instructor's folder.
"""

from __future__ import annotations

import importlib.util
import shutil
import textwrap
from pathlib import Path

from minfer.course.chapter import Chapter, SelfCheck, Task
from minfer.course.regions import find_regions
from minfer.course.starter import generate, references

MUSEUM = "museum.py"


def write(folder: Path, chapters: list[Chapter]) -> None:
    """solutions/NN_slug.md, a whole right part.py beside it, and the bug museum's part."""
    for chapter in chapters:
        home = folder / "solutions" / chapter.name
        home.mkdir(parents=True)
        (home / "solutions.md").write_text(book(chapter), encoding="utf-8")
        (home / "part.py").write_text(generate(chapter, solved=True), encoding="utf-8")
        if (chapter.folder / MUSEUM).is_file():
            shutil.copyfile(chapter.folder / MUSEUM, home / MUSEUM)


def book(chapter: Chapter) -> str:
    """One chapter's page."""
    lines = [f"# Solutions of chapter {chapter.number}, {chapter.title}", "", "Not for students.", ""]
    for task in chapter.tasks:
        lines += [f"## {task.id}: {task.title} ({task.points} points{', bonus' if task.bonus else ''})", ""]
        lines += [f"Properties: {', '.join(f'`{name}`' for name in task.properties)}.", ""]
        for what, code in regions(chapter, task):
            lines += [f"{what[:1].upper()}{what[1:]}:", "", "```python", code, "```", ""]
        lines += ["Hints, in the order in which students get them:", ""]
        lines += [*(f"{i}. {hint}" for i, hint in enumerate(task.hints, start=1)), ""]
    if chapter.selfchecks:
        lines += ["## Self-checks", ""]
        lines += [f"- {each.question} **{answer(chapter, each)} {each.unit}**".rstrip() for each in chapter.selfchecks]
        lines.append("")
    for each in chapter.written:
        lines += ["## Written question", "", each.question, "", *(f"- {line}" for line in each.rubric), ""]
        for name, marks in (("full", "full marks"), ("half", "half"), ("none", "no marks")):
            if name in each.sample:
                lines += [f"An answer that gets {marks}:", "", *(f"> {line}" for line in each.sample[name].splitlines()), ""]
    return "\n".join(lines)


def regions(chapter: Chapter, task: Task) -> list[tuple[str, str]]:
    """What each of the task's regions is to do, and how the reference does it."""
    found = []
    for part in references(chapter):
        lines = part.source.splitlines()
        for region in find_regions(part.source, str(part.file)):
            if (region.chapter, region.task) == (chapter.id, task.id):
                found.append((region.text, textwrap.dedent("\n".join(lines[region.first : region.last - 1]))))
    return found


def answer(chapter: Chapter, question: SelfCheck) -> str:
    """As the chapter's answers.py computes it; a note where it has no such function."""
    path = chapter.folder / "answers.py"
    if not path.is_file():
        return "(not computed)"
    spec = importlib.util.spec_from_file_location(f"minfer_answers_{chapter.id}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, question.answer, None)
    return "(not computed)" if function is None else f"{function():,.6g}".replace(",", " ")
