"""What a hand-written page asks for in `<!-- site NAME ARGUMENTS -->`: pieces that are made from the repository."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from minfer.course.library import all_chapters
from minfer.stages import STAGES
from pages import ladders, plan, stages
from pages.page import table, tabs
from pages.slots import WHAT

ASKED = re.compile(r"<!-- site (?P<name>[\w-]+)(?P<arguments>[^>\n]*?) -->")


def fill(text: str, root: Path) -> str:
    """Raises ValueError where a page asks for what is not known."""

    def one(match: re.Match) -> str:
        if match["name"] not in PIECES:
            raise ValueError(f"{match[0]}: no piece is called {match['name']!r}; there are {', '.join(PIECES)}")
        return PIECES[match["name"]](root, *match["arguments"].split())

    return ASKED.sub(one, text)


def ladder_table(root: Path) -> str:
    """Every stage, what it swaps, what changes, and its speed where it was measured."""
    measured = {name: ladders.speeds(ladders.load(root, name)) for name in ladders.LADDERS}
    rows = []
    for stage in STAGES.values():
        earlier = stages.before(stage)
        swapped = ", ".join(f"[`{slot}`](slots/{slot}.md)" for slot in stage.differs(earlier)) if earlier else ""
        speeds = [f"{found[stage.name]:,.0f}" if stage.name in found else "" for found in measured.values()]
        rows.append([f"[`{stage.name}`](stages/{stage.name}.md)", swapped, stages.texts(root, stage.name)[0].rstrip("."), *speeds])
    heads = ["stage", "swaps", "what changes", *(f"{title}, tokens/s" for title in ladders.TITLES.values())]
    lines = table(heads, rows).split("\n")
    lines[1] = "|---|---|---|" + "--:|" * len(measured)
    return "\n".join(lines)


def bar_tabs(root: Path) -> str:
    return tabs({ladders.TITLES[name]: ladders.glance(root, name) for name in reversed(ladders.LADDERS)})


def ladder_tabs(root: Path) -> str:
    return tabs({ladders.TITLES[name]: ladders.section(root, name) for name in reversed(ladders.LADDERS)})


def course_table(root: Path) -> str:
    """The chapters with their times and tasks."""
    rows = []
    for chapter in all_chapters(root / "chapters"):
        tasks = ", ".join(f"{task.title} ({task.points})" for task in chapter.tasks)
        title = f"[{chapter.number}. {chapter.title}](../chapters/{chapter.name}/README.md)"
        rows.append([title, f"{chapter.minutes}", f"`{', '.join(chapter.part)}`", tasks, f"{len(chapter.written)}"])
    return table(["chapter", "minutes", "slot", "tasks (points)", "written questions"], rows)


def slot_table(root: Path) -> str:
    return table(["slot", "its part"], [[f"[`{slot}`](slots/{slot}.md)", words] for slot, words in WHAT.items()])


PIECES: dict[str, Callable[..., str]] = {
    "ladder-table": ladder_table,
    "bar-tabs": bar_tabs,
    "ladder-tabs": ladder_tabs,
    "slot-table": slot_table,
    "course-table": course_table,
    "calculators": plan.calculators,
}
