"""Wrong parts, each with one plausible fault: a slot's suite must catch every one of them, with as many examples as it draws anyway.

The faults are in `tests/mutants/<slot>`; that the parts that come with minfer pass is in `tests/test_<slot>.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from minfer.parts import SLOTS
from minfer.testing.checking import check
from minfer.testing.suites import suite_of
from minfer.testing.target import Target, find_target

FOLDER = Path(__file__).parent / "mutants"
MUTANTS = sorted(FOLDER.glob("*/*.py"))


def target_of(path: Path) -> Target:
    """Functions are called mutant, classes Mutant."""
    name = "Mutant" if "class Mutant" in path.read_text() else "mutant"
    return find_target(path.parent.name, f"{path}:{name}")


def test_every_slot_has_mutants():
    assert {path.parent.name for path in MUTANTS} == set(SLOTS)


@pytest.mark.parametrize("path", MUTANTS, ids=[f"{path.parent.name}-{path.stem}" for path in MUTANTS])
def test_a_mutant_is_caught(path):
    """Some property fails, because of what the part gives or raises, and it does so each time."""
    target = target_of(path)
    results = (check(prop, target.part, target.place, shrink=False) for prop in suite_of(target.slot))
    caught = next((result for result in results if not result.passed), None)
    assert caught is not None, f"no property fails of {path.name}: {path.read_text().splitlines()[0]}"
    assert caught.status == "failed"
    assert not caught.flaky
