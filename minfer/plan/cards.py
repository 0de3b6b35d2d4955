"""Common cards, as their makers' data sheets give them. The table is `cards.json`, which the site's calculators read too.

From: `cards.json`, where each card names its source. To: `formulas.py`. FLOPs are dense, of 16-bit products added up in float32.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import NamedTuple

from minfer.errors import MinferError
from minfer.plan.formulas import Card


class Listed(NamedTuple):
    """A card of the table."""

    name: str
    card: Card
    source: str  # where its figures are from


def all_cards() -> dict[str, Listed]:
    """By the short name that `minfer plan --gpu` takes."""
    table = json.loads(files("minfer.plan").joinpath("cards.json").read_text(encoding="utf-8"))
    return {
        key: Listed(each["name"], Card(each["memory_gib"], each["bandwidth"], each["flops"]), each["source"])
        for key, each in table.items()
    }


def find_card(name: str) -> Listed:
    """The card that is called so; upper and lower case, spaces and dashes do not count.

    Raises:
        MinferError: none is; the message lists those that are known.
    """
    cards = all_cards()
    key = "".join(each for each in name.lower() if each.isalnum())
    if key not in cards:
        raise MinferError(f"no card is called {name!r}; the table has {', '.join(cards)}")
    return cards[key]
