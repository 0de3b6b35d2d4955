"""The calculators of docs/plan.md: the formulas and their fields as one script, and the tables of models and cards as data.

From: minfer/plan (formulas.mjs, cards.json), docs/assets/plan.mjs, the named shapes. To: assets/plan.js, and a piece of the page.
"""

from __future__ import annotations

import json
from pathlib import Path

from minfer import dummy
from minfer.plan.cards import all_cards
from minfer.plan.report import shape_of
from minfer.trace.page import joined

MODULES = ("minfer/plan/formulas.mjs", "docs/assets/plan.mjs")
NOSCRIPT = "The fields need JavaScript. <code>minfer plan</code> gives the same figures."


def scripts(root: Path) -> dict[str, bytes]:
    """One classic script: from a disk, browsers load no modules."""
    text = joined((root / module).read_text(encoding="utf-8") for module in MODULES)
    return {"assets/plan.js": f"(() => {{\n{text}\n}})();\n".encode()}


def calculators(root: Path) -> str:
    """Where the script puts its fields, the data, and the script."""
    cards = {key: {"name": each.name, "source": each.source, **each.card._asdict()} for key, each in all_cards().items()}
    data = json.dumps({"models": {name: shape_of(name)._asdict() for name in dummy.SHAPES}, "cards": cards}).replace("<", "\\u003c")
    return (
        f'<div id="plan"></div>\n<noscript>{NOSCRIPT}</noscript>\n'
        f'<script type="application/json" id="plan-data">{data}</script>\n<script src="assets/plan.js" defer></script>'
    )
