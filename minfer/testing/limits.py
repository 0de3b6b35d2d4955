"""A limit on the time that a part may take for one case, so that an endless loop is a failure like any other, with its line.

From: a property. To: the same property, whose check raises OutOfTime. Works in the main thread of a process, on Linux and macOS. Code
in C is interrupted when it comes back to Python.
"""

from __future__ import annotations

import linecache
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from minfer.testing.properties import Case, OutOfTime, Property

if TYPE_CHECKING:
    from minfer.testing.target import Target


CASE_SECONDS = 60.0  # where nobody says otherwise: no part needs so long, even if the machine is busy
SLOW_CASE_SECONDS = 300.0  # of a part that compiles its kernels, or is interpreted


@contextmanager
def time_limit(seconds: float, file: Path) -> Iterator[None]:
    """Raises OutOfTime inside the block once it has taken that long; `file` is the part's, of which the line is told."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise OutOfTime(f"an end within {seconds:g} s", f"none: {_line_of(frame, file)}")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def limited(prop: Property, seconds: float, file: Path) -> Property:
    """The same property, with so many seconds for each case."""
    check: Callable[[Any, Case], None] = prop.check

    def check_in_time(part: Any, case: Case) -> None:
        with time_limit(seconds, file):
            check(part, case)

    return replace(prop, check=check_in_time)


def limited_suite(suite: list[Property], target: Target) -> list[Property]:
    """The properties, with the usual limit for each case of this part."""
    slow = target.place.interpreted or target.place.device != "cpu" or target.slot == "executor"
    return [limited(prop, SLOW_CASE_SECONDS if slow else CASE_SECONDS, target.defined_in) for prop in suite]


def _line_of(frame: FrameType | None, file: Path) -> str:
    """Where the part was: its innermost line that is being run."""
    while frame is not None:
        if Path(frame.f_code.co_filename) == file:
            text = linecache.getline(str(file), frame.f_lineno).strip()
            return f"it was still at {file.name}, line {frame.f_lineno}: {text}"
        frame = frame.f_back
    return "it was still running, outside the part's own file: is something added for ever, or never taken away?"
