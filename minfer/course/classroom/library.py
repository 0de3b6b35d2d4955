"""The minfer that a submission may import: a copy without the solutions of its chapter and without other parts for the same slots.

So whoever hands in an import of the reference, or of another part that does the same, gets the starter's NotImplementedError or no
such module. Tests, chapters and command line are left out too.

From: the installed package. To: `process.py`, as the first folder on the submission's path.
"""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import minfer
from minfer.course.chapter import Chapter
from minfer.course.regions import strip
from minfer.course.starter import generate, references

PACKAGE = Path(minfer.__file__).parent
LEFT_OUT = ("bench", "chapters", "cli", "course", "serve", "testing", "trace", "__pycache__")
WORKERS = ("worker", "serving", "outside", "mirrors", "wire", "frames", "jail", "guard", "runner_bench")


def make_library(chapter: Chapter, into: Path) -> None:
    """Write the package into the folder `into`."""
    target = into / "minfer"
    shutil.copytree(PACKAGE, target, ignore=lambda folder, names: set(LEFT_OUT if Path(folder) == PACKAGE else ["__pycache__"]))
    workers = [f"minfer.course.classroom.{name}" for name in WORKERS]
    needed = closure(*(path_of(module).read_text(encoding="utf-8") for module in workers))
    inits = ["minfer.course.__init__", "minfer.course.classroom.__init__", "minfer.testing.__init__"]
    for module in [*workers, *inits, *(each for each in needed if each.startswith("minfer.testing."))]:
        place = into / path_of(module).relative_to(PACKAGE.parent)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path_of(module), place)
    keep = closure(generate(chapter))
    parts = references(chapter)
    for part in parts:
        name = f"minfer.{part.slot}"
        for path in (target / part.slot).rglob("*.py"):
            module = ".".join((name, *path.relative_to(target / part.slot).with_suffix("").parts))
            if path.stem != "__init__" and module not in keep:
                path.unlink()
    for part in parts:
        place = into / path_of(part.module).relative_to(PACKAGE.parent)
        place.write_text(strip(part.source, str(part.file), chapter.id), encoding="utf-8")


def closure(*sources: str) -> set[str]:
    """The modules of minfer that texts import, and what those import, and so on."""
    found: set[str] = set()
    texts = list(sources)
    while texts:
        for module in imported(texts.pop()):
            path = path_of(module)
            if module not in found and path.is_file():
                found.add(module)
                texts.append(path.read_text(encoding="utf-8"))
    return found


def path_of(module: str) -> Path:
    """Where a module of minfer would be, if it is no package."""
    return PACKAGE.parent / f"{module.replace('.', '/')}.py"


def imported(source: str) -> set[str]:
    """Every module of minfer that an import statement in the text can mean."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {module for module in modules if module.partition(".")[0] == "minfer"}
