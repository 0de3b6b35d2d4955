"""The suites as tests, one a property, for pytest in any project: `pytest --pyargs minfer.testing --part SLOT=PART`."""

from __future__ import annotations

import pytest

from minfer.testing.checking import check
from minfer.testing.properties import Property
from minfer.testing.report import explain, headline
from minfer.testing.suites import suite_of
from minfer.testing.target import Target, targets_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test for every property of every part."""
    try:
        targets = targets_of(metafunc.config.getoption("--part"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    pairs = [(target, prop) for target in targets for prop in suite_of(target.slot)]
    metafunc.parametrize(("target", "prop"), pairs, ids=[f"{target.slot}-{prop.name}" for target, prop in pairs])


def test_part(target: Target, prop: Property, pytestconfig: pytest.Config) -> None:
    """The property holds of the part."""
    result = check(prop, target.part, target.place, pytestconfig.getoption("--part-examples"), pytestconfig.getoption("--part-seed"))
    if not result.passed:
        pytest.fail("\n".join([*target.describe(), headline(result), *explain(result, target)]), pytrace=False)
