"""Starters: the solution is out, everything else is in, and each is in step with its reference."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from course_fixtures import BY_CHAPTER, CHAPTERS, ROOT, reference

from minfer.course.chapter import ChapterError
from minfer.course.index import index
from minfer.course.library import all_chapters, folders
from minfer.course.regions import find_regions, strip, without_comments
from minfer.course.starter import build, digest, generate, header, references, version_of
from minfer.parts import SLOTS

SOURCE = '''
"""Two slots' worth of arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator

from minfer.errors import MinferError, PartError

needs = {"triton"}

LIMIT = 3  # of something


def helper(x):
    return x + LIMIT


# A comment that belongs to what follows.
@staticmethod
def part(x: int, y: Iterator) -> int:
    """Adds."""
    total = helper(x)
    # ch04 task1: add the root
    total += math.sqrt(x)  # the secret
    # end of ch04 task1
    # ch05 task1: and again
    total += 1
    # end of ch05 task1
    if total:
        # ch04 task2: tell
        raise MinferError(total)
        # end of ch04 task2
    return total


def unrelated():
    raise PartError
'''
KERNEL = """
import triton

@triton.jit(do_not_specialize=["x"])
def kernel(x):
    # ch06 task1: load
    y = x
    # end of ch06 task1
    return y

def part(x):
    # ch06 task2: launch
    return kernel[x](x.kernel, kernel=1)
    # end of ch06 task2
"""


def test_a_starter_has_no_solution_and_all_else(tmp_path):
    """Own regions raise, others' stay; imports of the solution, the comment above, `needs`; the rest is imported from the reference."""
    text = build([reference(tmp_path, "norm", SOURCE, "part")], "ch04")
    ast.parse(text)
    assert "secret" not in text
    assert 'raise NotImplementedError("ch04 task1: add the root")' in text
    assert "    # ch04 task1: add the root\n    raise" in text
    assert "        # ch04 task2: tell\n        raise NotImplementedError(" in text
    assert "total += 1\n    if total" in text, "what another chapter asks for is done, and its comments are gone"
    assert "# A comment that belongs to what follows.\n@staticmethod\ndef part(" in text
    assert "import math\nfrom collections.abc import Iterator\n\nfrom minfer.errors import MinferError\n" in text
    assert "from minfer.norm.torch import helper\n" in text
    assert 'needs = {"triton"}' in text
    assert "unrelated" not in text
    solved = build([reference(tmp_path, "norm", SOURCE, "part")], "")
    assert "secret" in solved
    assert "ch0" not in solved


def test_kernels_raise_when_they_are_compiled(tmp_path):
    """Triton cannot raise, so it asserts; names that two slots keep are told apart, attributes and arguments of that name are not."""
    parts = [reference(tmp_path, slot, KERNEL.replace("part", slot), slot, "kernel") for slot in ("write_kv", "activation")]
    text = build(parts, "ch06")
    assert text.count('    tl.static_assert(False, "ch06 task1: load")\n') == 2
    assert text.count('raise NotImplementedError("ch06 task2: launch")') == 2
    solved = build(parts, "")
    assert "return activation_kernel[x](x.kernel, " in solved
    assert "def write_kv_kernel(x):" in solved
    assert "def kernel" not in solved


def test_long_messages_are_folded():
    """No line is longer than the style allows, and the message is whole."""
    message = "let " + "every running sequence " * 4 + "run"
    source = f"def f():\n    if 1:\n        # ch04 task1: {message}\n        pass\n        # end of ch04 task1\n"
    text = strip(source, "f.py", "ch04")
    assert max(map(len, text.splitlines())) <= 136
    with pytest.raises(NotImplementedError, match=f"^ch04 task1: {message.strip()}$"):
        exec(text + "f()", {})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f():\n    # ch04 task1: a\n    pass\n", "line 2: '# ch04 task1: a' has no end"),
        ("def f():\n    # end of ch04 task1\n    pass\n", "ends what does not stand open"),
        ("def f():\n    # ch04 task1: a\n    # ch04 task2: b\n    # end of ch04 task2\n", "begins before '# ch04 task1: a' has ended"),
        ("def f():\n    # ch04 task1: a\n    pass\n    # end of ch04 task2\n", "ends what does not stand open"),
        ("# ch04 task1: a\npass\n# end of ch04 task1\n", "must lie inside a function"),
        ("def f():\n    if 1:\n    # ch04 task1: a\n        pass\n    # end of ch04 task1\n", "it is no Python: line "),
    ],
)
def test_regions_that_are_none(source, message):
    """Each mistake is told with its line."""
    with pytest.raises(ChapterError, match=message.replace("(", r"\(")):
        strip(source, "f.py", "ch04")


def test_what_cannot_be_kept(tmp_path):
    """A name that is not there, or one that would still call the reference's own."""
    with pytest.raises(ChapterError, match="has no none, which the chapter is to keep"):
        build([reference(tmp_path, "norm", SOURCE, "part", "none")], "ch04")
    with pytest.raises(ChapterError, match="helper is not kept and uses LIMIT, which is: keep helper too"):
        build([reference(tmp_path, "norm", SOURCE, "part", "LIMIT")], "ch04")


def test_the_list_of_chapters_is_in_step():
    """`make starters` was run."""
    if folders(ROOT / "chapters"):
        assert (ROOT / "chapters" / "README.md").read_text() == index(all_chapters(ROOT / "chapters"))


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_every_starter_is_in_step(chapter):
    """part.py is what the reference and chapter.toml give; it passes the linter, and so does the solution, with every rule."""
    text = chapter.starter.read_text()
    assert text == generate(chapter), "run `make starters`"
    assert version_of(text)[1] == digest(text[len(header(chapter, "")) + 1 :])
    lint = [sys.executable, "-m", "ruff", "check", "--quiet", "--stdin-filename"]
    for path, content in ((chapter.starter, text), (ROOT / "minfer" / "solved.py", generate(chapter, solved=True))):
        done = subprocess.run([*lint, str(path), "-"], input=content, text=True, cwd=ROOT, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("chapter", **BY_CHAPTER)
def test_every_region_belongs_to_a_task(chapter):
    """No region of a task that the chapter does not have, in any part of minfer."""
    tasks = {task.id for task in chapter.tasks}
    others = [part.file for part in references(chapter)]
    for path in (*others, *(path for slot in SLOTS for path in (ROOT / "minfer" / slot).glob("*.py"))):
        if f"# {chapter.id} " in (source := path.read_text()):
            regions = [region for region in find_regions(source, str(path)) if region.chapter == chapter.id]
            assert {region.task for region in regions} <= tasks, path
            assert f"# {chapter.id} " not in without_comments(source)


def test_a_starter_may_keep_what_the_part_builds_on():
    """Names of another module: they come first, with the docstring of theirs, and are not imported."""
    chapter = next(each for each in CHAPTERS if each.id == "ch14")
    assert [part.module for part in references(chapter)] == ["minfer.shard", "minfer.executor.processes"]
    text = generate(chapter, solved=True)
    assert text.index("class Shard:") < text.index("class ProcessesExecutor(")
    assert "import Cut\n" in text
    assert "Shard\n" not in "".join(line for line in text.splitlines(keepends=True) if "import" in line)
    assert text.count('"""Tensor parallelism from outside the model') == 1
    assert "Two threads stand between" not in text
