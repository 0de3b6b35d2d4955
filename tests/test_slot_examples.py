"""The parts that the pages of slots show: each file is short, fits its slot, and holds every property of its suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages.slots import defined

from minfer.parts import SLOTS
from minfer.testing.checking import check_suite
from minfer.testing.suites import suite_of
from minfer.testing.target import find_target

FOLDER = Path(__file__).parent.parent / "docs" / "slots"
EXAMPLES = 3  # cases for each property


@pytest.mark.parametrize("slot", SLOTS)
def test_an_example_holds_its_slots_properties(slot):
    file = FOLDER / f"{slot}.py"
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 24, "short enough to be read at a glance"
    target = find_target(slot, f"{file}:{defined(file)}")
    for result in check_suite(suite_of(slot), target.part, target.place, EXAMPLES):
        assert result.status == "passed", f"{slot}.{result.prop.name}: {result.error} in {result.case}"


def test_there_is_one_for_every_slot_and_no_other():
    assert {file.stem for file in FOLDER.glob("*.py")} == set(SLOTS)
