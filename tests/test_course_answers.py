"""Answers of the chapters: each self-check has a function that computes it, quickly, and the same each time."""

from __future__ import annotations

import importlib.util
import inspect
import math
import time
from pathlib import Path

import pytest

from minfer.course.chapter_file import load_chapter
from minfer.course.library import folders

CHAPTERS = Path(__file__).parent.parent / "chapters"
SLOW = "import time\ndef a():\n    '?'\n    end = time.process_time() + 2.1\n    while time.process_time() < end: pass\n    return 1"
ANSWERS = sorted(CHAPTERS.glob("*/answers.py"))


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"answers_{path.parent.name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def functions(path: Path) -> dict:
    """The questions of a file: its own public functions."""
    module = load(path)
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.parent.name)
def test_answers_are_numbers_that_stay_the_same(path):
    """Without arguments, finite, from under 2 s of this process's time, and equal in a second, fresh run of the file."""
    again = functions(path)
    for name, function in functions(path).items():
        assert not inspect.signature(function).parameters, f"{name} takes arguments; a name that begins with _ may"
        assert (function.__doc__ or "").strip(), f"{name} does not say which question it answers"
        began = time.process_time()
        answer = function()
        assert time.process_time() - began < 2, f"{name} took too long"
        assert isinstance(answer, int | float), f"{name} is {answer!r}, no number"
        assert math.isfinite(answer), f"{name} is {answer}"
        assert answer == again[name](), f"{name} changes from run to run"


@pytest.mark.parametrize("folder", folders(CHAPTERS), ids=lambda folder: folder.name)
def test_every_selfcheck_has_its_answer(folder):
    chapter = load_chapter(folder)
    answers = functions(folder / "answers.py") if (folder / "answers.py").exists() else {}
    missing = [check.answer for check in chapter.selfchecks if check.answer not in answers]
    assert not missing, f"chapter.toml asks for {missing}, and answers.py has {sorted(answers)}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def a():\n    '''?'''\n    return 1 / 3", None),
        ("def a():\n    return 1", "does not say"),
        ("def a(x=1):\n    '''?'''\n    return 1", "takes arguments"),
        ("def a():\n    '''?'''\n    return float('nan')", "is nan"),
        ("def a():\n    '''?'''\n    return '1'", "no number"),
        ("import random\ndef a():\n    '''?'''\n    return random.random()", "changes from run to run"),
        (SLOW, "too long"),
        ("from math import sqrt\ndef _b(x): return x", None),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_answer_is_found(tmp_path, text, says):
    path = tmp_path / "answers.py"
    path.write_text(text)
    if says is None:
        test_answers_are_numbers_that_stay_the_same(path)
    else:
        with pytest.raises(AssertionError, match=says):
            test_answers_are_numbers_that_stay_the_same(path)
