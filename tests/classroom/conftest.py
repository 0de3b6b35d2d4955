"""The grader's tests start many processes: they are run by `make test-slow`."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        if "classroom" in item.path.parts:
            item.add_marker(pytest.mark.slow)
