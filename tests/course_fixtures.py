"""What the tests of the course share: the chapters that there are, and small ones made for a test."""

from __future__ import annotations

import textwrap
from pathlib import Path

from minfer.course.chapter import Chapter, ChapterError
from minfer.course.chapter_file import load_chapter
from minfer.course.library import all_chapters
from minfer.course.starter import Reference

ROOT = Path(__file__).parents[1]
MUTANTS = ROOT / "tests" / "mutants"

try:
    CHAPTERS: list[Chapter] = all_chapters(ROOT / "chapters")
except ChapterError:  # a test of its own says which
    CHAPTERS = []
BY_CHAPTER = {"argvalues": CHAPTERS, "ids": [chapter.id for chapter in CHAPTERS]}

TOML = """
number = 4
title = "Continuous batching"
stage = "continuous"
before = "paged"
minutes = 60
hardware = "any CPU"
needs = []
summary = "Sequences come and go at every step."
[part]
scheduler = "ContinuousScheduler"
[[task]]
id = "task1"
title = "Decodes first"
points = 6
properties = ["scheduler.tokens", "scheduler.ahead"]
hints = ["Who is already running?", "Look at self.running.", "for seq in self.running: ..."]
[[task]]
id = "task2"
title = "Newcomers"
points = 4
properties = ["scheduler.budget", "scheduler.oldest", "scheduler.work"]
hints = ["What is left of the budget?", "Look at self._admit.", "while ... self._admit(budget): ..."]
[[task]]
id = "task3"
title = "More"
points = 2
bonus = true
properties = ["engine"]
hints = ["a", "b", "c"]
"""
NORM = """
number = 7
title = "A fused norm"
stage = "fused-norm"
before = "triton-attention"
minutes = 45
hardware = "a CPU in Triton's interpreter"
needs = ["triton"]
summary = "One kernel."
[part]
norm = "add_rms_norm"
[keep]
norm = ["add_rms_norm", "kernel"]
[[task]]
id = "task1"
title = "The kernel"
points = 10
properties = ["norm.normalised", "norm.sum"]
hints = ["a", "b", "c"]
"""


def write_chapter(place: Path, text: str = TOML, name: str = "04_continuous", **replaced: str) -> Chapter:
    """A chapter's folder under `place` with that chapter.toml; `replaced` changes the first line of a key."""
    lines = [f"{key} = {replaced.pop(key)}" if (key := line.partition(" = ")[0]) in replaced else line for line in text.splitlines()]
    assert not replaced
    folder = place / name
    folder.mkdir(parents=True)
    (folder / "chapter.toml").write_text("\n".join(lines))
    return load_chapter(folder)


def reference(folder: Path, slot: str, text: str, *keep: str) -> Reference:
    """A reference in a file of its own."""
    path = folder / f"{slot}.py"
    path.write_text(textwrap.dedent(text))
    return Reference(slot, f"minfer.{slot}.torch", path, keep)

NOT_ASKED: dict[tuple[str, str], str] = {  # (chapter, slot/mutant) that the chapter need not catch → why
    ("ch02", "attention/many_rows"): "a fault of kernel launches, which a part in PyTorch has none of",
    ("ch11", "attention/many_rows"): "decodes are chapter 6's, which asks for it; this chapter's part takes its kernel",
    **{
        (chapter, f"executor/{mutant}"): "a fault of one device's executor, which ranks are made of and these chapters only connect"
        for chapter in ("ch14", "ch15")
        for mutant in ("copies_too_late", "forgets_host_blocks")
    },
}
