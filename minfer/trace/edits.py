"""Edits: how a trace says what became of a list since the step before, in few numbers.

From: `recorder.py`, which sees the lists themselves. To: `replay.py`, and `player/state.mjs`, which make them again.

A queue is edited by who left and who came in, {"out": [ids], "in": [position, id, ...]}; where that is not enough, since somebody
put it into another order, the whole list stands in its place. A block table keeps its first blocks and gets new ones behind them.
"""

from __future__ import annotations

from typing import Any

Edit = list[int] | dict[str, list[int]]


def edit_of(old: list[int], new: list[int]) -> Edit:
    """What makes `new` of `old`. No number may be in a list twice."""
    before, after = set(old), set(new)
    edit: dict[str, list[int]] = {}
    out = [each for each in old if each not in after]
    places = [number for i, each in enumerate(new) if each not in before for number in (i, each)]
    if out:
        edit["out"] = out
    if places:
        edit["in"] = places
    return edit if apply_edit(old, edit) == new else new


def apply_edit(old: list[int], edit: Edit) -> list[int]:
    """The list after the edit; `old` stays as it is."""
    if isinstance(edit, list):
        return list(edit)
    out = set(edit.get("out", ()))
    new = [each for each in old if each not in out] if out else list(old)
    places = edit.get("in", ())
    for i in range(0, len(places), 2):
        new.insert(places[i], places[i + 1])
    return new


def table_edit(old: list[int], new: list[int]) -> tuple[int, list[int]]:
    """(how many of the first blocks stay, the blocks that come behind them)."""
    keep = len(old)
    if new[:keep] != old:
        keep = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    return keep, new[keep:]


def without_empty(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry without what is None or empty: in a trace, absent means that nothing happened."""
    return {name: value for name, value in entry.items() if value is not None and value != [] and value != {}}
