"""The imports of a starter: those of the references that are needed, in the order that the linter wants.

From: the references' own import statements. To: `starter.py`.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict

from minfer.course.chapter import ChapterError

WIDTH = 136


def names_in(node: ast.AST) -> set[str]:
    """All names that a piece of code uses, those in annotations written as strings too."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for each in ast.walk(node):
        annotation = getattr(each, "annotation", None) or getattr(each, "returns", None)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            names |= names_in(ast.parse(annotation.value, mode="eval"))
    return names


class Imports:
    """Collects `import x as y` and `from x import y as z`."""

    def __init__(self):
        self.modules: set[tuple[str, str | None]] = set()
        self.names: dict[str, set[tuple[str, str | None]]] = defaultdict(set)
        self.homes: dict[str, tuple[str, str]] = {}  # what a name is bound to

    def take(self, tree: ast.Module, wanted: set[str], kept: set[tuple[str, str]]) -> None:
        """Those of a module's imports that bind a wanted name; not what the starter itself keeps, as (module, name)."""
        statements = [each for node in tree.body for each in (node.body if isinstance(node, ast.If) else [node])]
        for node in statements:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    if bound in wanted:
                        self._bind(bound, (alias.name, ""))
                        self.modules.add((alias.name, alias.asname))
            elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
                for alias in node.names:
                    if (alias.asname or alias.name) in wanted and (node.module, alias.name) not in kept:
                        self._bind(alias.asname or alias.name, (node.module, alias.name))
                        self.names[node.module].add((alias.name, alias.asname))

    def add(self, module: str, names: list[str]) -> None:
        """`from module import names`"""
        for name in names:
            self._bind(name, (module, name))
            self.names[module].add((name, None))

    def _bind(self, name: str, home: tuple[str, str]) -> None:
        if self.homes.setdefault(name, home) != home:
            raise ChapterError(f"{name} is imported as {'.'.join(home)} and as {'.'.join(self.homes[name])}: one file cannot have both")

    def text(self) -> str:
        """All of them: the standard library, other packages, minfer; within each, modules before names."""
        groups: dict[int, list[str]] = {0: ["from __future__ import annotations"], 1: [], 2: [], 3: []}
        for module, alias in sorted(self.modules, key=lambda pair: pair[0]):
            groups[_group(module)].append(f"import {module} as {alias}" if alias else f"import {module}")
        for module in sorted(self.names, key=str.lower):
            names = [f"{name} as {alias}" if alias else name for name, alias in sorted(self.names[module], key=_by_kind)]
            groups[_group(module)].append(_line(module, names))
        return "\n\n".join("\n".join(lines) for lines in groups.values() if lines) + "\n"


def _group(module: str) -> int:
    top = module.partition(".")[0]
    return 3 if top == "minfer" else 1 if top in sys.stdlib_module_names else 2


def _by_kind(pair: tuple[str, str | None]) -> tuple[int, str]:
    """Constants, classes, then the rest."""
    name = pair[0]
    kind = 0 if name.isupper() and len(name) > 1 else 1 if name.lstrip("_")[:1].isupper() else 2
    return kind, name


def _line(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= WIDTH else "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])
