"""The suite of a slot over every part that comes with minfer, as one test for the slot's test file.

From: the parts in the slot's folder, so that none is forgotten. To: `tests/test_<slot>.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import minfer
from minfer.cli.stages import SHARED, parts_of
from minfer.resolve import missing
from minfer.testing.checking import check
from minfer.testing.properties import Property
from minfer.testing.report import in_full
from minfer.testing.suites import suite_of
from minfer.testing.target import find_target

FEW = {"minfer.attention.flex:attention": 2}  # examples of parts that compile for seconds whenever a size is new


def shipped(slot: str) -> list[str]:
    """The slot's parts, by name, less those that need what this machine lacks."""
    paths = sorted((Path(minfer.__file__).parent / slot).glob("[!_]*.py"))
    modules = [f"minfer.{slot}.{path.stem}" for path in paths if path.stem != SHARED]
    return [part for module in modules if not missing(f"{module}:any") for part in parts_of(slot, module)]


def suite_test(slot: str) -> Callable:
    """A test for every property of the slot and every part."""
    params = [
        pytest.param(name, prop, id=f"{name.removeprefix(f'minfer.{slot}.')}-{prop.name}", marks=[pytest.mark.slow] * (name in FEW))
        for name in shipped(slot)
        for prop in suite_of(slot)
    ]

    @pytest.mark.parametrize(("name", "prop"), params)
    def test(name: str, prop: Property) -> None:
        """The property holds of the part, whatever the case."""
        target = find_target(slot, name)
        result = check(prop, target.part, target.place, FEW.get(name))
        if not result.passed:
            pytest.fail(in_full(result, target), pytrace=False)

    return test
