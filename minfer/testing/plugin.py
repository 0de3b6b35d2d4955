"""The pytest plugin: `pytest --pyargs minfer.testing --part attention=my_kernels.py:attention` runs a slot's suite anywhere.

pytest loads it in every project that has minfer installed, so it imports nothing of minfer until one of its options is used.
"""

from __future__ import annotations

import pytest

TARGETS = pytest.StashKey[list]()  # the parts that --part names


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("minfer", "minfer's parity suites (pytest --pyargs minfer.testing)")
    group.addoption(
        "--part",
        action="append",
        default=[],
        metavar="SLOT=PART",
        help="a part to check, as module:Name or file.py:Name; repeatable. Without any: those of this machine's default stage",
    )
    group.addoption("--part-examples", type=int, metavar="N", help="cases to draw for each property")
    group.addoption("--part-seed", type=int, default=0, metavar="N", help="another seed draws other cases")


def pytest_configure(config: pytest.Config) -> None:
    """Find the parts before anything is collected, so that a mistake is one line."""
    examples = config.getoption("--part-examples")
    if examples is not None and examples < 1:
        raise pytest.UsageError(f"--part-examples {examples}: at least one case must be drawn")
    if not config.getoption("--part"):
        return
    from minfer.testing.target import targets_of

    try:
        config.stash[TARGETS] = targets_of(config.getoption("--part"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Which file fills which slot, with -q as well."""
    for target in config.stash.get(TARGETS, []):
        for line in target.describe():
            terminalreporter.write_line(line)
