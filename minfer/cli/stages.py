"""`minfer stages`: the ladder, what each stage swaps, what this machine can run, and the parts that stand off the ladder.

From: `minfer/stages.py` and the folders of parts. To: a table, or JSON.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from minfer.cli.console import print_json, print_table
from minfer.stages import STAGES, TO_MANY_DEVICES

SHARED = "base"  # the module of a slot's folder that holds what its parts share


def stages(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the stages: what each swaps, and whether this machine can run it."""
    rows = describe_stages()
    if as_json:
        print_json({"stages": rows})
        return
    from minfer.resolve import NEEDS

    others = off_ladder()
    print_table(
        "Stages: each is the one before with one part swapped",
        ["stage", "swaps", "part", "runs here", "lacks"],
        [[row["name"], row["swaps"], row["part"], *runs_here(STAGES[row["name"]].parts().values())] for row in rows],
    )
    print_table(
        "Parts off the ladder: minfer generate --swap SLOT=PART",
        ["slot", "part", "runs here", "lacks"],
        [[slot, part, *runs_here([part])] for slot, part in others],
    )
    lacking = needs_of([*(part for stage in STAGES.values() for part in stage.parts().values()), *(part for _, part in others)])
    for need in lacking:
        typer.echo(f"{need}: {NEEDS[need]}")


def needs_of(parts: Iterable[str]) -> list[str]:
    """What these parts need and this machine lacks."""
    from minfer.resolve import missing

    return sorted({need for part in parts for need in missing(part)})


def runs_here(parts: Iterable[str]) -> tuple[str, str | None]:
    """(yes or no, what is lacking) for the table."""
    lacking = needs_of(parts)
    return ("no", ", ".join(lacking)) if lacking else ("yes", None)


def describe_stages() -> list[dict]:
    """One entry a stage, in the ladder's order; the mixes off the ladder last."""
    from minfer.bench.ladder import swaps
    from minfer.resolve import why_not

    rows = []
    for stage in STAGES.values():
        slots, parts = swaps(stage)
        reason = why_not(stage)
        rows.append(
            {
                "name": stage.name,
                "swaps": slots,
                "part": parts,
                "runs_here": reason is None,
                "why_not": reason,
                "parts": stage.parts(),
            }
        )
    return rows


def off_ladder() -> list[tuple[str, str]]:
    """(slot, part) of every part in a slot's folder that no stage of the ladder, or of its end on many devices, uses.

    A module that needs what this machine lacks is not imported: its functions are found by their parameters, in its text.
    """
    import minfer
    from minfer.parts import SLOTS

    used = {part for stage in TO_MANY_DEVICES for part in stage.parts().values()}
    found = []
    for slot in SLOTS:
        paths = sorted((Path(minfer.__file__).parent / slot).glob("[!_]*.py"))
        for path in paths:
            module = f"minfer.{slot}.{path.stem}"
            if path.stem != SHARED:
                parts = functions_of(slot, module, path) if needs_of([f"{module}:any"]) else parts_of(slot, module)
                found += [(slot, part) for part in parts if part not in used]
    return found


def functions_of(slot: str, module: str, path: Path) -> list[str]:
    """What a module's text defines that has the parameters of the slot's function."""
    from minfer.parts import SLOTS

    wanted = vars(SLOTS[slot]).get("__call__")
    if wanted is None:
        return []
    functions = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return [f"{module}:{each.name}" for each in functions if [arg.arg for arg in each.args.args] == parameters(wanted)]


def parts_of(slot: str, module: str) -> list[str]:
    """What a module defines that fits the slot: a class with its methods, a function with its very parameters."""
    from minfer.errors import PartError
    from minfer.parts import SLOTS
    from minfer.resolve import resolve

    wanted = vars(SLOTS[slot]).get("__call__")  # None where the slot takes a class
    parts = []
    for name, value in vars(importlib.import_module(module)).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module or not callable(value):
            continue
        try:
            resolve(slot, f"{module}:{name}")
        except PartError:
            continue
        if wanted is None or list(inspect.signature(value).parameters) == parameters(wanted):
            parts.append(f"{module}:{name}")
    return parts


def parameters(method) -> list[str]:
    """Names of a method's parameters, without self."""
    return list(inspect.signature(method).parameters)[1:]
