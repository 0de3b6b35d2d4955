"""Whose work a submission is, as far as its text tells. What is found is for people to look at: no points depend on it.

A text that is as the reference is may be honest, since the last hint of a task is nearly the solution. An import of the reference needs
no judgement: `library.py` has taken the solution out of it.

From: `grading.py`, with the text. To: the notes of a grade.
"""

from __future__ import annotations

import ast
import contextlib
import io
import textwrap
import tokenize

from minfer.course.chapter import Chapter
from minfer.course.classroom.library import imported
from minfer.course.regions import find_regions
from minfer.course.starter import generate, references

TELLING = 60  # tokens: a solution this long is not written twice with the same names by chance
UNUSUAL = {
    "exec", "eval", "compile", "__import__", "importlib", "ctypes", "subprocess", "socket", "multiprocessing", "threading", "gc",
    "inspect", "marshal", "pickle", "atexit", "signal", "urllib", "requests", "shutil", "sys", "builtins", "__builtins__", "setattr",
    "open",
}  # fmt: skip


def look(chapter: Chapter, text: str) -> list[str]:
    """What a person should know of a submission's text. Empty where it is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    notes = []
    starter = generate(chapter)
    used, given = _names(tree), _names(ast.parse(starter))
    if unusual := sorted((used & UNUSUAL) - given):
        notes.append(f"to look at: it uses {', '.join(unusual)}, which the starter does not")
    slots = {part.slot for part in references(chapter)}
    extra = sorted(module for module in imported(text) - imported(starter) if module.split(".")[1:2] and module.split(".")[1] in slots)
    if extra:
        notes.append(f"to look at: it imports {', '.join(extra)}, which the starter does not")
    if f"# end of {chapter.id} " in text:
        notes.append("to look at: it has the comments that mark the solution in minfer's own source")
    own = _tokens(text)
    for task, pieces in _solutions(chapter).items():
        if sum(map(len, pieces)) >= TELLING and all(_contains(own, piece) for piece in pieces):
            notes.append(f"to look at: {task} is word for word minfer's own solution, names included")
    return notes


def _names(tree: ast.AST) -> set[str]:
    """Names that are used or imported."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {(node.module or "").partition(".")[0], *(alias.name for alias in node.names)}
    return names


def _solutions(chapter: Chapter) -> dict[str, list[list[str]]]:
    """The tokens of each region, by task."""
    found: dict[str, list[list[str]]] = {}
    for part in references(chapter):
        lines = part.source.splitlines()
        for region in find_regions(part.source, str(part.file)):
            if region.chapter == chapter.id:
                solution = textwrap.dedent("\n".join(lines[region.first : region.last - 1]))
                found.setdefault(region.task, []).append(_tokens(solution))
    return found


def _tokens(text: str) -> list[str]:
    """Words and signs, without comments and layout."""
    kept = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    tokens = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # a region is a piece of a text, and may end anywhere
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in kept:
                tokens.append(token.string)
    return tokens


def _contains(text: list[str], piece: list[str]) -> bool:
    return any(text[i : i + len(piece)] == piece for i in range(len(text) - len(piece) + 1))
