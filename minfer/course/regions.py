"""Solution regions: the lines of a reference that a task asks for, between `# chNN taskM: what to do` and `# end of chNN taskM`.

From: a reference part's text. To: `starter.py`, which takes the lines out; `minfer diff`, which takes the comments out.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from dataclasses import dataclass

from minfer.course.chapter import ChapterError

BEGIN = re.compile(r"(\s*)# (ch\d\d) (task\w+): (.*\S)\s*")
END = re.compile(r"(\s*)# end of (ch\d\d) (task\w+)\s*")
WIDTH = 136  # of a line
STUB = re.compile(r"(ch\d\d) (task\w+): ")  # in the message of what a starter raises


@dataclass(frozen=True)
class Region:
    """Lines are counted from 1; `first` is the opening comment, `last` the closing one."""

    chapter: str
    task: str
    text: str
    indent: str
    first: int
    last: int


def find_regions(source: str, file: str) -> list[Region]:
    """All regions, of all chapters, in order.

    Raises:
        ChapterError: one is not closed, is closed but not open, overlaps another, or lies outside every function.
    """
    regions: list[Region] = []
    opened: tuple[int, re.Match] | None = None
    for number, line in enumerate(source.splitlines(), start=1):
        if end := END.fullmatch(line):
            if opened is None or opened[1].groups()[1:3] != end.groups()[1:3]:
                raise ChapterError(f"{file}, line {number}: {line.strip()!r} ends what does not stand open")
            first, begin = opened
            regions.append(Region(begin[2], begin[3], begin[4], begin[1], first, number))
            opened = None
        elif begin := BEGIN.fullmatch(line):
            if opened is not None:
                raise ChapterError(f"{file}, line {number}: {line.strip()!r} begins before {opened[1][0].strip()!r} has ended")
            if not begin[1]:
                raise ChapterError(f"{file}, line {number}: a region must lie inside a function")
            opened = number, begin
    if opened is not None:
        raise ChapterError(f"{file}, line {opened[0]}: {opened[1][0].strip()!r} has no end")
    return regions


def without_comments(source: str) -> str:
    """The text without the comments that mark regions."""
    lines = source.splitlines(keepends=True)
    return "".join(line for line in lines if not BEGIN.fullmatch(line.rstrip("\n")) and not END.fullmatch(line.rstrip("\n")))


def strip(source: str, file: str, chapter: str) -> str:
    """The text with each region of that chapter replaced by its comment and a line that raises; other chapters' comments go.

    Raises:
        ChapterError: a region is not well formed, or what is left is no Python.
    """
    lines = source.splitlines()
    regions = find_regions(source, file)
    kernels = _kernel_lines(source)
    for region in reversed(regions):
        if region.chapter == chapter:
            comment = f"{region.indent}# {chapter} {region.task}: {region.text}"
            stub = _stub(f"{chapter} {region.task}: {region.text}", region.indent, region.first in kernels)
            lines[region.first - 1 : region.last] = [comment, *stub]
        else:
            del lines[region.last - 1], lines[region.first - 1]
    text = "\n".join(lines) + "\n"
    try:
        ast.parse(text)
    except SyntaxError as error:
        raise ChapterError(f"{file}: without its regions of {chapter} it is no Python: line {error.lineno}, {error.msg}") from None
    return text


def _kernel_lines(source: str) -> set[int]:
    """The lines of functions under @triton.jit."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    kernels = [node for node in functions if any("triton.jit" in ast.unparse(each) for each in node.decorator_list)]
    return {line for node in kernels for line in range(node.lineno, node.end_lineno + 1)}


def _stub(message: str, indent: str, in_kernel: bool) -> list[str]:
    """What stands where the solution was. A long message is written as strings side by side."""
    before, after = ("tl.static_assert(False, ", ")") if in_kernel else ("raise NotImplementedError(", ")")
    line = f"{indent}{before}{_quoted(message)}{after}"
    if len(line) <= WIDTH:
        return [line]
    if in_kernel:  # Triton takes one string only: the comment above has it whole
        short = textwrap.shorten(message, WIDTH - len(indent) - len(before) - 4, placeholder=" ...")
        return [f"{indent}{before}{_quoted(short)}{after}"]
    pieces = textwrap.wrap(message, WIDTH - len(indent) - 8, drop_whitespace=False)
    return [f"{indent}{before}", *(f"{indent}    {_quoted(piece)}" for piece in pieces), f"{indent}{after}"]


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
