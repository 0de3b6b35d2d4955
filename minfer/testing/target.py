"""The part that is to be checked: which file fills the slot, and where it can be run.

From: the name that `minfer check` or the pytest plugin was given. To: `checking.py` gets the part and its place.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minfer.choice import best_stage
from minfer.errors import PartError
from minfer.parts import SLOTS
from minfer.resolve import machine, missing, origin, resolve
from minfer.testing.properties import Place

INTERPRET = "TRITON_INTERPRET"  # Triton reads it when it is first imported, so it cannot be switched within a process


@dataclass(frozen=True)
class Target:
    """A part in its slot."""

    slot: str
    name: str
    part: Any
    file: Path  # that the name leads to
    place: Place

    @property
    def defined_in(self) -> Path:
        """The file whose code is run: another one where the named file only imports the part."""
        try:
            return Path(inspect.getsourcefile(inspect.unwrap(self.part)) or self.file)
        except TypeError:
            return self.file

    def describe(self) -> list[str]:
        """Which file fills the slot, and anything that limits what is checked."""
        lines = [f"{self.slot} is filled by {self.name.rpartition(':')[2]} of {self.file}"]
        if self.defined_in != self.file:
            lines.append(f"which takes it from {self.defined_in}")
        if self.place.interpreted:
            lines.append("there is no GPU: the kernels run in Triton's interpreter, slowly, on float32 and float16 only")
        elif self.place.device != "cpu":
            lines.append(f"it runs on the device {self.place.device}")
        return lines


def find_target(slot: str, name: str | None = None) -> Target:
    """The part called `name`; without one, the part that this machine's default stage has in the slot.

    Raises:
        PartError: there is no such slot; or the part cannot be found, does not fit, or needs what this machine lacks.
    """
    if slot not in SLOTS:
        raise PartError(f"no slot is called {slot!r}; the slots are {', '.join(SLOTS)}")
    name = name or getattr(best_stage()[0], slot)
    file, needs = origin(name)
    interpreted = needs_interpreter(name) and interpreting()
    part = resolve(slot, name, lift=frozenset({"cuda"}) if interpreted else frozenset())
    device = "cuda" if "cuda" in needs and "cuda" in machine() else "cpu"
    threads = None if "compiler" in needs else 1  # a part in C++ may share its work out, and must do that right
    return Target(slot, name, part, file, Place(device, interpreted, threads))


def needs_interpreter(name: str) -> bool:
    """A Triton kernel on a machine that lacks nothing but the GPU."""
    return missing(name) == ["cuda"] and "triton" in origin(name)[1]


def interpreting() -> bool:
    """Whether Triton kernels of this process run in its interpreter."""
    return os.environ.get(INTERPRET) == "1"


def targets_of(parts: list[str]) -> list[Target]:
    """Parts written as SLOT=PART; without any, those of this machine's default stage.

    Raises:
        PartError: one is not written so, or cannot be used.
    """
    targets = []
    for text in parts or [f"{slot}={name}" for slot, name in best_stage()[0].parts().items()]:
        slot, equals, name = text.partition("=")
        if not equals or not name:
            raise PartError(f"{text!r} is not SLOT=module:Name or SLOT=file.py:Name")
        if slot in SLOTS and needs_interpreter(name) and not interpreting():
            raise PartError(f"{text} needs a GPU, and there is none; run pytest with {INTERPRET}=1 to interpret its kernels")
        targets.append(find_target(slot, name))
    return targets
