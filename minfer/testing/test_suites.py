"""The suites as tests, one a property, for pytest in any project: `pytest --pyargs minfer.testing --part SLOT=PART`."""

from __future__ import annotations

import pytest

from minfer.testing.checking import check
from minfer.testing.limits import limited_suite
from minfer.testing.plugin import TARGETS
from minfer.testing.properties import Property
from minfer.testing.report import in_full
from minfer.testing.suites import suite_of
from minfer.testing.target import Target, targets_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for every property of every part."""
    stash = metafunc.config.stash
    targets = stash[TARGETS] = stash.get(TARGETS, None) or targets_of([])
    pairs = [(target, prop) for target in targets for prop in limited_suite(suite_of(target.slot), target)]
    metafunc.parametrize(("target", "prop"), pairs, ids=[f"{target.slot}-{prop.name}" for target, prop in pairs])


def test_part(target: Target, prop: Property, pytestconfig: pytest.Config) -> None:
    """The property holds of the part."""
    result = check(prop, target.part, target.place, pytestconfig.getoption("--part-examples"), pytestconfig.getoption("--part-seed"))
    if not result.passed:
        pytest.fail(in_full(result, target), pytrace=False)
