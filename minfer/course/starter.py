"""Starters: a chapter's part.py, made from the reference parts by leaving the chapter's solution regions out.

From: `chapter.toml` and the reference sources. To: `make starters` writes chapters/NN_slug/part.py; `minfer start` copies it.

A starter has the definitions that the chapter keeps, with their comments and docstrings, and the imports that their solution needs. Any
other name of the reference's file is imported from there. Definitions of two slots that have one name are told apart by their slot.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import tokenize
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import minfer
from minfer.course.chapter import Chapter, ChapterError
from minfer.course.imports import Imports, names_in
from minfer.course.regions import strip, without_comments

VERSION = re.compile(r"# A starter of minfer (\S+), text ([0-9a-f]{8})\.")


@dataclass(frozen=True)
class Reference:
    """A part of minfer that a student writes anew."""

    slot: str
    module: str
    file: Path
    keep: tuple[str, ...]

    @property
    def source(self) -> str:
        return self.file.read_text(encoding="utf-8")


def references(chapter: Chapter) -> list[Reference]:
    """The references of a chapter's slots, each with what is kept of it; nothing is imported.

    A kept name that is written "module:name" is of another module than the part itself, on which the part builds.
    """
    package = Path(minfer.__file__).parent.parent
    found = []
    for slot in chapter.part:
        kept: dict[str, tuple[str, ...]] = {}
        for each in chapter.keep[slot]:
            module, _, name = each.rpartition(":")
            module = module or chapter.reference(slot).rpartition(":")[0]
            kept[module] = (*kept.get(module, ()), name)
        found += [Reference(slot, module, package / f"{module.replace('.', '/')}.py", names) for module, names in kept.items()]
    return found


def generate(chapter: Chapter, solved: bool = False) -> str:
    """The starter of a chapter; solved: with the solutions left in.

    Raises:
        ChapterError: a region or a kept name is not as it must be; or a task has no region.
    """
    parts = references(chapter)
    for task in chapter.tasks if not solved else ():
        if not any(f"# {chapter.id} {task.id}: " in part.source for part in parts):
            files = ", ".join(part.file.name for part in parts)
            raise ChapterError(f"{chapter.id} {task.id} has no region in {files}: a comment `# {chapter.id} {task.id}: ...` opens it")
    body = build(parts, "" if solved else chapter.id)
    return f"{header(chapter, body)}\n{body}"


def build(parts: list[Reference], chapter_id: str) -> str:
    """The text below the header, from these references, without the regions of that chapter."""
    imports, needs, docs, sections = Imports(), set(), [], []
    clashes = _clashes(parts)
    kept = {(part.module, name) for part in parts for name in part.keep}
    for part in parts:
        solved = without_comments(part.source)
        tree = ast.parse(solved)
        defined = {name: node for node in tree.body for name in _names(node)}
        if lacking := [name for name in part.keep if name not in defined]:
            raise ChapterError(f"{part.file} has no {', '.join(lacking)}, which the chapter is to keep")
        used = set().union(*(names_in(defined[name]) for name in part.keep)) - set(part.keep)
        borrowed = sorted(used & set(defined) - {"needs"})
        for name in borrowed:
            if again := names_in(defined[name]) & set(part.keep):
                raise ChapterError(f"{part.file}: {name} is not kept and uses {', '.join(again)}, which is: keep {name} too")
        imports.take(tree, used, kept)
        imports.add(part.module, borrowed)
        if "needs" in defined:
            needs |= ast.literal_eval(defined["needs"].value)
        stripped = strip(part.source, str(part.file), chapter_id) if chapter_id else solved
        text = _kept(stripped, part.keep)
        for name in clashes & set(part.keep):
            text = _renamed(text, name, f"{part.slot}_{name}")
        if part.slot not in dict(docs):
            docs.append((part.slot, ast.get_docstring(tree, clean=False) or ""))
        sections.append(text)
    lines = [_docstring(docs), imports.text()]
    if needs:
        lines.append(f"needs = {{{json.dumps(sorted(needs))[1:-1]}}}\n")
    begins_with_a_constant = not needs and sections[0].partition(" = ")[0].isidentifier()
    return "\n".join(lines) + ("\n" if begins_with_a_constant else "\n\n") + "\n\n".join(sections)


def header(chapter: Chapter, body: str) -> str:
    """What a student reads first: what the file is, and the commands."""
    tasks = "\n".join(f"#   {task.id}, {task.points} points{', a bonus' * task.bonus}: {task.title}" for task in chapter.tasks)
    parts = [f"{name} for the slot {slot}" for slot, name in chapter.part.items()]
    yours = f" {parts[0]}." if len(parts) == 1 else "".join(f"\n#   {part}" for part in parts)
    return f"""# Chapter {chapter.number}, {chapter.title}. Edit this file: it is your{yours}
#
{tasks}
#
#   minfer check {chapter.id}              what is right so far, and your points
#   minfer check {chapter.id} -k {chapter.tasks[0].id}     one task only
#   minfer hint {chapter.id} {chapter.tasks[0].id}         a hint; --more for the next one
#
# A starter of minfer {minfer.__version__}, text {digest(body)}.
"""


def digest(body: str) -> str:
    """Says whether two starters' texts below the header are the same."""
    return hashlib.sha256(body.encode()).hexdigest()[:8]


def version_of(text: str) -> tuple[str, str] | None:
    """The version of minfer and the digest that a student's file was made with; None where its header does not say."""
    match = VERSION.search(text)
    return None if match is None else (match[1], match[2])


def _names(node: ast.stmt) -> list[str]:
    """What a statement at the top of a module defines; imports do not count."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]


def _clashes(parts: list[Reference]) -> set[str]:
    """Names that two slots keep."""
    seen: set[str] = set()
    return {name for part in parts for name in part.keep if name in seen or seen.add(name)}


def _kept(source: str, keep: tuple[str, ...]) -> str:
    """The kept definitions as they stand, with decorators and the comments directly above."""
    lines = source.splitlines()
    texts = []
    for node in ast.parse(source).body:
        if set(_names(node)) & set(keep):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
            while first > 1 and lines[first - 2].startswith("#"):
                first -= 1
            space = "\n" if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
            texts.append((space, "\n".join(lines[first - 1 : node.end_lineno])))
    text = ""
    for i, (space, each) in enumerate(texts):
        text += ("\n" + max(space, texts[i - 1][0]) if i else "") + each + "\n"
    return text


def _renamed(source: str, old: str, new: str) -> str:
    """The same text with one name of the module replaced; attributes of that name stay."""
    lines = source.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for before, token in reversed(list(pairwise(tokens))):
        if token.type == tokenize.NAME and token.string == old and before.string != ".":
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column] + new + lines[row - 1][column + len(old) :]
    return "".join(lines)


def _docstring(docs: list[tuple[str, str]]) -> str:
    """The references' own, one after the other where there are several."""
    if len(docs) == 1:
        return f'"""{docs[0][1]}"""\n'
    texts = [doc.strip() if doc.startswith("Slot `") else f"Slot `{slot}`\n\n{doc.strip()}" for slot, doc in docs]
    return '"""' + "\n\n".join(texts) + '\n"""\n'
