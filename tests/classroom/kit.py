"""A small chapter to grade, made for the tests: its reference, with solution regions, is a file beside minfer's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from minfer.course import starter, submission
from minfer.course.chapter import Chapter
from minfer.course.chapter_file import load_chapter
from minfer.course.classroom import library, originals, solutions
from minfer.course.classroom.collect import Collected
from minfer.course.classroom.grades import ChapterGrade
from minfer.course.classroom.grading import grade_chapter
from minfer.course.classroom.process import Limits
from minfer.course.starter import Reference

TOML = """
number = 2
title = "A small one"
stage = "decoder"
before = "hf"
minutes = 10
hardware = "any CPU"
summary = "For tests."
[part]
activation = "silu_mul"
[[task]]
id = "task1"
title = "The gate"
points = 6
properties = ["activation.silu-mul", "activation.saturated"]
hints = ["a", "b", "c"]
[[task]]
id = "task2"
title = "In the engine"
points = 4
properties = ["engine"]
hints = ["a", "b", "hint three: nearly the code"]
[[selfcheck]]
question = "How many halves has a row?"
answer = "halves"
unit = "halves"
[[written]]
question = "Why two halves?"
rubric = ["2: says why", "1: says something", "0: does not"]
sample = { full = "Because of the gate.", half = "Because.", none = "So." }
"""
ANSWERS = '''"""Answers."""


def halves() -> int:
    """How many halves has a row?"""
    return 1234567
'''
README = """# A small one

Text.

<details><summary>Solution of task 1</summary>

    gate, up = gate_up.chunk(2, dim=-1)

</details>

More text.
"""
SOURCE = '''"""Slot `activation`, for the tests."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def silu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """[T, 2 I] → silu(first half) * second half, [T, I]."""
    # ch02 task1: halve the rows
    gate, up = gate_up.chunk(2, dim=-1)
    # end of ch02 task1
    # ch02 task2: multiply
    return F.silu(gate) * up
    # end of ch02 task2
'''
OWN = SOURCE.replace("# ch02 ", "# mine ").replace("# end of ch02", "# end of mine")  # as a student writes it
LIMITS = Limits(call_seconds=2.0, property_seconds=20.0, engine_seconds=20.0, starts=1, cpu_seconds=60, memory=3 << 30)


class Beside(Reference):
    """Its module is minfer's, its file another one."""

    @property
    def source(self) -> str:
        return SOURCE


def make_chapter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Chapter:
    """The chapter, known to everything that looks for its references."""
    home = folder / "02_small"
    home.mkdir()
    (home / "chapter.toml").write_text(TOML, encoding="utf-8")
    (home / "answers.py").write_text(ANSWERS, encoding="utf-8")
    (home / "README.md").write_text(README, encoding="utf-8")
    (home / "museum.py").write_text("# gate, up = gate_up.chunk(2, dim=-1)\n", encoding="utf-8")
    chapter = load_chapter(home)

    def references(asked: Chapter) -> list[Reference]:
        return [Beside("activation", "minfer.activation.torch", home / "reference.py", ("silu_mul",))]

    for module in (library, originals, solutions, starter, submission):
        monkeypatch.setattr(module, "references", references)
    return chapter


def grade_text(chapter: Chapter, text: str | None, seed: int = 1, examples: int = 12, **limits: float) -> ChapterGrade:
    return grade_chapter(chapter, text, seed, replace(LIMITS, **limits), examples)


def collected(**texts: str) -> Collected:
    return Collected("test", texts)


__all__ = ["LIMITS", "OWN", "SOURCE", "collected", "grade_text", "make_chapter"]
