"""What chapters measured says where and with what it was measured, and can be measured again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CHAPTERS = Path(__file__).parent.parent / "chapters"
MEASURED = sorted(CHAPTERS.glob("*/measured.json"))


@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.parent.name)
def test_a_measurement_names_its_machine_and_commit(path):
    """As `minfer.bench.report.header` writes it; and measure.py, which wrote it, lies beside it."""
    report = json.loads(path.read_text(encoding="utf-8"))
    assert {"date", "commit", "hardware", "versions"} <= report.keys()
    assert report["hardware"]["cpu"] or report["hardware"]["gpus"]
    assert report["commit"]
    assert path.with_name("measure.py").exists()


def test_every_measurement_was_made():
    """`make measured` makes them."""
    scripts = {path.parent.name for path in CHAPTERS.glob("*/measure.py")}
    assert scripts == {path.parent.name for path in MEASURED}
