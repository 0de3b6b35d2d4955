"""The site's calculators: the figures of the script that the page loads are those of `minfer plan`."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_runner import node
from pages import plan

from minfer import dummy
from minfer.plan.cards import all_cards
from minfer.plan.report import ITEMSIZE, figures, shape_of

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import { figures } from "PLACE";
import { readFileSync } from "fs";
const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(({ shape, card, given }) => figures(shape, card, given))));
""".replace("PLACE", (ROOT / "docs" / "assets" / "plan.mjs").as_uri())
GIVEN = [
    {"dtype": "bfloat16", "context": 2048, "batch": 64, "block_size": 16, "share": 0.9, "tp": 1},
    {"dtype": "float32", "context": 77, "batch": 3, "block_size": 7, "share": 0.5, "tp": 2},
]


def test_figures_are_those_of_the_command_line():
    cases, expected = [], []
    for name in dummy.SHAPES:
        for listed in all_cards().values():
            for options in GIVEN:
                shape = shape_of(name)
                if shape.num_heads % options["tp"]:
                    continue
                given = {"itemsize": ITEMSIZE[options["dtype"]], "blockSize": options["block_size"], **options}
                cases.append({"shape": shape._asdict(), "card": listed.card._asdict(), "given": given})
                expected.append({each.key: each.value for each in figures(shape, listed, **options)})
    for found, wanted in zip(node(SCRIPT, cases), expected, strict=True):
        assert set(found) == set(wanted)
        assert {key: value for key, value in found.items() if value is None} == {k: v for k, v in wanted.items() if v is None}
        for key, value in wanted.items():
            assert value is None or found[key] == pytest.approx(value, rel=1e-12), key


def test_the_script_is_one_file_without_modules():
    """A browser loads no modules from a disk."""
    text = plan.scripts(ROOT)["assets/plan.js"].decode()
    lines = text.splitlines()
    assert not [line for line in lines if line.startswith(("import ", "export "))]
    assert "function decodeSeconds" in text
    assert "class Calculator" in text
