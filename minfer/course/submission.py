"""A student's file, looked at without running it: is it there, is it Python, does it define what it must, is it their own.

From: `minfer check ch04 [FILE]`. To: the worker gets the name of a part for each slot. A mistake is told with its line.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import minfer
from minfer.course.chapter import PART, Chapter
from minfer.course.starter import references
from minfer.errors import PartError


@dataclass(frozen=True)
class Submission:
    """A file, and what it defines for the chapter's slots."""

    chapter: Chapter
    file: Path  # as it was given
    text: str
    parts: dict[str, str]  # slot → name in the file
    missing: dict[str, str]  # slot → name that the file lacks

    def name(self, slot: str) -> str:
        """As `minfer check SLOT --part` takes it."""
        return f"{self.file}:{self.parts[slot]}"


def default_file(chapter: Chapter, folder: Path = Path()) -> Path:
    """Where `minfer start` put it, seen from a folder: its own, or the one above.

    Raises:
        PartError: it is in neither.
    """
    places = [folder / chapter.name / PART, folder / PART] if folder.resolve().name == chapter.name else [folder / chapter.name / PART]
    for place in places:
        if place.is_file():
            return place
    raise PartError(f"there is no {places[0]}; `minfer start {chapter.id}` makes it, or name your file: minfer check {chapter.id} FILE")


def read(chapter: Chapter, file: Path) -> Submission:
    """Look at a file.

    Raises:
        PartError: it cannot be read, is no Python, defines none of the chapter's parts, or takes one from minfer's own.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PartError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise PartError(f"{file} is no text in UTF-8: {error}") from None
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise PartError(f"{file}, line {error.lineno}: {error.msg}{f': {line}' if line else ''}") from None
    except ValueError as error:
        raise PartError(f"{file} is no Python: {error}") from None
    if not file.resolve().is_relative_to(chapter.folder.resolve()):  # the museum's part may build on the reference
        refuse_reference(chapter, file, tree)
    bound = {name for node in tree.body for name in _bound(node)}
    parts = {slot: name for slot, name in chapter.part.items() if name in bound}
    if not parts:
        own = ", ".join(sorted(bound)) or "nothing"
        wanted = " or ".join(f"{name} (for the slot {slot})" for slot, name in chapter.part.items())
        raise PartError(
            f"{file} defines no {wanted}; it defines {own}. Was it renamed? `minfer start {chapter.id} --to NEW` gives a fresh one"
        )
    return Submission(chapter, file, text, parts, {slot: name for slot, name in chapter.part.items() if slot not in parts})


def refuse_reference(chapter: Chapter, file: Path, tree: ast.Module) -> None:
    """The reference is what is to be written, so it may not be imported.

    Raises:
        PartError: it is the reference's own file, or imports one of the names that the chapter asks for.
    """
    own = Path(minfer.__file__).parent.resolve()
    if file.resolve().is_relative_to(own):
        raise PartError(f"{file} is minfer's own; `minfer start {chapter.id}` gives you a file to write")
    for part in references(chapter):
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom) and node.module == part.module:
                taken = [name for name in names if name in (*part.keep, "*")]
            else:
                package, _, last = part.module.rpartition(".")
                whole = isinstance(node, ast.ImportFrom) and node.module == package and last in names
                taken = [part.module] if part.module in names or whole else []
            if taken:
                raise PartError(
                    f"{file}, line {node.lineno}, imports {taken[0]} from minfer's own {part.slot} part, which this chapter asks "
                    "you to write; import only what the starter imports"
                )


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
