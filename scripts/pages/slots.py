"""A page for every slot: its Protocol, the parts that fill it, how to write your own, its suite and its mutants.

From: `minfer/parts.py`, the parts' files, docs/slots/NAME.py (a part of a few lines that works), `minfer/testing/suites`,
tests/mutants. To: slots/NAME.md.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from minfer.cli.stages import off_ladder
from minfer.parts import SLOTS
from minfer.stages import STAGES
from minfer.testing.properties import Property
from minfer.testing.suites import suite_of
from pages.page import Page, fence, file_of, fold, table
from pages.stages import linked, needs_of

WHAT = {
    "executor": "runs plans, on one device or on many, and loads the model",
    "loop": "drives the four verbs: schedule, launch, wait, commit",
    "scheduler": "decides what each step computes",
    "policy": "says who is admitted first",
    "preemption": "says what happens to the K/V of a sequence that must give way",
    "blocks": "hands out the blocks of the K/V cache",
    "inputs": "turns a plan into tensors",
    "runner": "runs the model on a batch",
    "linear": "multiplies by a weight, behind every projection of the model",
    "norm": "adds the residual and normalises",
    "write_kv": "rotates q and k, and writes K and V into the cache",
    "attention": "lets each new token attend over its own sequence's pages",
    "activation": "applies SiLU to one half and multiplies by the other",
    "sample": "turns logits into tokens",
}


def page(root: Path, slot: str) -> Page:
    protocol = SLOTS[slot]
    example = root / "docs" / "slots" / f"{slot}.py"
    own = f"mine.py:{defined(example)}"
    parts = [
        f"# {slot}",
        f"A part in the slot `{slot}` {WHAT[slot]}.",
        "## What a part must offer",
        f"::: minfer.parts.{protocol.__name__}\n    options:\n      heading_level: 3",
        fold("The Protocol as it is written", fence(inspect.getsource(protocol))),
        "## Parts that fill it",
        parts_table(root, slot),
        "## Write your own",
        "This file works. Save it as `mine.py`, and change it.",
        fence(example.read_text(encoding="utf-8"), "python", 'title="mine.py"'),
        fence(f'minfer check {slot} --part {own}\nminfer generate "The capital of France is" --swap {slot}={own}', "bash"),
        "The first command says property by property whether it is right, the second runs the engine with it. A part that needs "
        'something of the machine says so in its file: `needs = {"cuda"}`. How to read a failure: [parity](../parity.md).',
        "## Its suite",
        f"`minfer check {slot}` draws cases at random and tests these properties (`minfer/testing/suites/{slot}.py`):",
        properties(suite_of(slot)),
        *promised(slot),
        "## Mutants",
        "Wrong parts, each with one fault, on which the suite must fail. They keep the suite honest.",
        mutants(root, slot),
    ]
    return Page(f"slots/{slot}.md", f"docs/slots/{slot}.md", "\n\n".join(parts) + "\n")


def parts_table(root: Path, slot: str) -> str:
    stages: dict[str, list[str]] = {}
    for stage in STAGES.values():
        stages.setdefault(stage.parts()[slot], []).append(stage.name)
    parts = [*stages, *(part for found, part in off_ladder() if found == slot and part not in stages)]
    rows = []
    for part in parts:
        needs = ", ".join(f"`{need}`" for need in sorted(needs_of(root, part))) or "any CPU"
        first = stages.get(part, [""])[0]
        since = f"[`{first}`](../stages/{first}.md)" if first else "off the ladder"
        rows.append([linked(part), cell(summary(root / file_of(part))), needs, since])
    return table(["part", "what it is", "needs", "first in"], rows)


def properties(suite: list[Property]) -> str:
    return table(["property", "what must hold", "cases"], [[f"`{p.name}`", cell(p.statement), f"{p.examples}"] for p in suite])


def promised(slot: str) -> list[str]:
    """The properties that only some parts of a slot promise."""
    more = suite_of(slot, promised=True)[len(suite_of(slot)) :]
    words = "Only some parts promise these; a chapter asks for them where its part does:"
    return [words, properties(more)] if more else []


def mutants(root: Path, slot: str) -> str:
    files = sorted((root / "tests" / "mutants" / slot).glob("*.py"))
    rows = [[f"[`{file.stem}`](../../tests/mutants/{slot}/{file.name})", cell(summary(file).removeprefix("Fault: "))] for file in files]
    return table(["mutant", "its fault"], rows)


def summary(file: Path) -> str:
    """The first sentence of a file's docstring, or its first line where that is shorter."""
    words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    paragraph = " ".join(words.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].rstrip(".") + "."


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def defined(file: Path) -> str:
    """The part that an example defines: its last class or function."""
    nodes = [node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return nodes[-1].name
