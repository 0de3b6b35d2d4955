"""One suite of properties for every slot, whatever part fills it: `suites/<slot>.py` has the list PROPERTIES.

From: `minfer check`, the pytest plugin and the tests ask for a slot's suite. To: `minfer/testing/checking.py` runs it.
"""

from __future__ import annotations

import importlib
import importlib.util

from minfer.testing.properties import Property


def suite_of(slot: str, promised: bool = False) -> list[Property]:
    """The properties that a part for this slot must have.

    promised: and those that only some of its parts promise (`minfer/testing/promises`), at the end.
    """
    found = list(importlib.import_module(f"minfer.testing.suites.{slot}").PROPERTIES)
    if promised and importlib.util.find_spec(f"minfer.testing.promises.{slot}"):
        found += importlib.import_module(f"minfer.testing.promises.{slot}").PROPERTIES
    return found
