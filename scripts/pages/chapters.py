"""The chapters as pages: the text, what belongs to it, the answers of its self-checks, and its solutions with their reasons.

From: chapters/NN_slug, the solution regions of the reference parts, docs/solutions.toml (why a solution is as it is). To:
chapters/NN_slug/README.md on the site. The solutions are not part of what students are handed.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

from markers import answers

from minfer.course.chapter import Chapter, Task
from minfer.course.regions import find_regions
from pages.page import Page, fence, file_of, fold

CARD = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)  # the first table of a chapter
CHECKS = re.compile(r"^## Check yourself\n.*?(?=^Next:|^What comes next|^## |\Z)", re.MULTILINE | re.DOTALL)


def page(root: Path, chapter: Chapter) -> Page:
    source = f"chapters/{chapter.name}/README.md"
    text = (root / source).read_text(encoding="utf-8")
    text = CARD.sub(lambda match: match[0] + files(root, chapter), text, count=1)
    text = CHECKS.sub(lambda match: match[0].rstrip() + "\n\n" + answered(chapter) + "\n\n", text, count=1)
    return Page(source, source, text.rstrip() + "\n\n" + solutions(root, chapter) + "\n")


def files(root: Path, chapter: Chapter) -> str:
    """One more row for the card: what belongs to the chapter."""
    found = ["[the starter](part.py)", "[the museum's part](museum.py)"]
    if (root / "chapters" / chapter.name / "notebook.ipynb").is_file():
        found.append("[the notebook](notebook.ipynb)")
    found += [f"[the stage](../../docs/stages/{chapter.stage}.md)", "[the solutions](#solutions)"]
    return f"| With it | {' · '.join(found)} |\n"


def answered(chapter: Chapter) -> str:
    """The answers, computed now by the functions that the tests check."""
    if not chapter.selfchecks:
        return ""
    lines = []
    for number, check in enumerate(chapter.selfchecks, 1):
        value = answers(chapter.folder / "answers.py", check.answer)
        unit = f" {check.unit}" if check.unit else ""
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
        lines.append(f"{number}. {check.question} **{shown}{unit}**")
    return fold("The answers", "\n".join(lines))


def solutions(root: Path, chapter: Chapter) -> str:
    reasons = tomllib.loads((root / "docs" / "solutions.toml").read_text(encoding="utf-8")).get(chapter.id, {})
    parts = ["## Solutions", "minfer's own, from the reference. Yours may look different: what counts is that the properties hold."]
    parts += [fold(f"{task.id}: {task.title}", solution(root, chapter, task, reasons.get(task.id, ""))) for task in chapter.tasks]
    return "\n\n".join(parts)


def solution(root: Path, chapter: Chapter, task: Task, reason: str) -> str:
    """The regions of a task, each under the words that stand in the starter."""
    blocks = [reason.strip()] if reason else []
    for slot in chapter.part:
        path = file_of(chapter.reference(slot))
        source = (root / path).read_text(encoding="utf-8")
        lines = source.splitlines()
        for region in find_regions(source, path):
            if (region.chapter, region.task) == (chapter.id, task.id):
                code = textwrap.dedent("\n".join(lines[region.first : region.last - 1]))
                blocks.append(f"{region.text[0].upper()}{region.text[1:]} (`{path}`):\n\n{fence(code)}")
    return "\n\n".join(blocks)
