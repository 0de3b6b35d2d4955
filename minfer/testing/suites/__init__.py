"""One suite of properties for every slot, whatever part fills it: `suites/<slot>.py` has the list PROPERTIES.

From: `minfer check`, the pytest plugin and the tests ask for a slot's suite. To: `minfer/testing/checking.py` runs it.
"""

from __future__ import annotations

import importlib

from minfer.testing.properties import Property


def suite_of(slot: str) -> list[Property]:
    """The properties that a part for this slot must have."""
    return importlib.import_module(f"minfer.testing.suites.{slot}").PROPERTIES
