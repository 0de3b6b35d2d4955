"""A page for every stage: what it swaps, what that is for, its numbers, the difference of the two parts, and where others have it.

From: `minfer/stages.py`, docs/stages/NAME.md (a summary, a paragraph, `## Elsewhere`), the ladder's reports. To: stages/NAME.md.
"""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

from minfer.course.chapter import Chapter
from minfer.course.regions import without_comments
from minfer.stages import CHUNKED, CPU_TORCH, STAGES, Stage
from pages import ladders
from pages.page import Page, fence, file_of, fold, table, tabs

ELSEWHERE = "\n## Elsewhere\n"


def before(stage: Stage) -> Stage | None:
    """The stage that this one is told against."""
    if stage is CPU_TORCH:
        return CHUNKED
    stages = list(STAGES.values())
    place = stages.index(stage)
    return stages[place - 1] if place else None


def texts(root: Path, name: str) -> tuple[str, str, str]:
    """Summary, paragraph and `Elsewhere` of a stage, as they were written."""
    words = (root / "docs" / "stages" / f"{name}.md").read_text(encoding="utf-8")
    story, _, elsewhere = words.partition(ELSEWHERE)
    summary, _, story = story.partition("\n\n")
    return summary.strip(), story.strip(), elsewhere.strip()


def page(root: Path, stage: Stage, chapters: list[Chapter]) -> Page:
    summary, story, elsewhere = texts(root, stage.name)
    earlier = before(stage)
    swaps = stage.differs(earlier) if earlier else []
    parts = [f"# {stage.name}", summary, facts(root, stage, earlier, chapters), "## What it buys, and why", story, "## Its numbers"]
    names = sorted(ladders.LADDERS, key=lambda name: stage.name not in ladders.speeds(ladders.load(root, name)))  # the measured first
    parts.append(tabs({ladders.TITLES[name]: numbers(root, name, stage, earlier) for name in names}))
    parts.append("## Try it")
    parts.append(fence(f'minfer generate "The capital of France is" --stage {stage.name}', "bash"))
    if swaps:
        parts.append("## The difference")
        parts += [difference(root, slot, getattr(earlier, slot), getattr(stage, slot)) for slot in swaps]
    parts += ["## Where the same idea lives elsewhere", elsewhere]
    return Page(f"stages/{stage.name}.md", f"docs/stages/{stage.name}.md", "\n\n".join(parts) + "\n")


def numbers(root: Path, name: str, stage: Stage, earlier: Stage | None) -> str:
    return ladders.compared(root, name, earlier.name if earlier else None, stage.name)


def facts(root: Path, stage: Stage, earlier: Stage | None, chapters: list[Chapter]) -> str:
    """What it swaps, what that needs, where one builds it."""
    rows = []
    if earlier:
        rows.append(["The stage before", f"[`{earlier.name}`]({earlier.name}.md)"])
        for slot in stage.differs(earlier):
            old, new = getattr(earlier, slot), getattr(stage, slot)
            rows += [["It swaps", f"[`{slot}`](../slots/{slot}.md)"], ["from", linked(old)], ["to", linked(new)]]
    else:
        rows += [[f"[`{slot}`](../slots/{slot}.md)", linked(part)] for slot, part in stage.parts().items()]
    needs = sorted({need for part in stage.parts().values() for need in needs_of(root, part)})
    rows.append(["It needs", ", ".join(f"`{need}`" for need in needs) or "any CPU"])
    for chapter in chapters:
        if chapter.stage == stage.name:
            rows.append(["You build it in", f"[chapter {chapter.number}, {chapter.title}](../../chapters/{chapter.name}/README.md)"])
    return table(["", ""], rows)


def linked(part: str) -> str:
    return f"[`{part}`](../../{file_of(part)})"


def needs_of(root: Path, part: str) -> set[str]:
    """What a part says that it needs of the machine; its file is not imported."""
    for node in ast.parse((root / file_of(part)).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["needs"]:
            return set(ast.literal_eval(node.value))
    return set()


def difference(root: Path, slot: str, old: str, new: str) -> str:
    """Two parts' files, compared line by line."""
    files = file_of(old), file_of(new)
    sources = [without_comments((root / file).read_text(encoding="utf-8")).splitlines() for file in files]
    lines = list(difflib.unified_diff(*sources, *files, lineterm=""))
    counts = [sum(line.startswith(sign) and not line.startswith(sign * 3) for line in lines) for sign in "+-"]
    title = f"{slot}: {counts[0]} lines more, {counts[1]} lines less"
    return fold(title, fence("\n".join(lines), "diff"))
