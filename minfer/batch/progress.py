"""How far a batch is: a bar on a terminal, else a line now and then.

From: `run.py`. To: stderr. How many lines an input has is not known before its end, so its bytes are what is counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from minfer.batch.jobs import Done

EVERY = 30.0  # seconds between two lines
ENOUGH = 0.01  # share of the input from which the time left can be told


class BatchProgress:
    """`with BatchProgress(...) as progress`, then `finished` for each record.

    Args:
        total: bytes of the input; start: how many of them were done before.
        announce: takes a line, where stderr is no terminal.
    """

    def __init__(self, total: int, start: int, announce: Callable[[str], None]):
        self._bar = Progress(
            TextColumn("{task.fields[lines]} lines"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[speed]:.0f} tokens/s, left:"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=total, completed=start, lines=0, speed=0.0)
        self._total, self._start, self._announce = total, start, announce
        self._lines = self._tokens = 0
        self._begun = self._said = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def finished(self, done: Done) -> None:
        """A record was written."""
        self._lines += 1
        self._tokens += done.output_tokens
        speed = self._tokens / max(self.seconds, 1e-9)
        self._bar.update(self._task, completed=done.end, lines=self._lines, speed=speed)
        if self._bar.disable and time.monotonic() > self._said + EVERY:
            self._said = time.monotonic()
            share, mine = done.end / self._total, (done.end - self._start) / self._total
            left = f", about {self.seconds * (1 - share) / mine / 60:.0f} min left" if mine > ENOUGH else ""
            self._announce(f"{self._lines} lines, {share:.0%} of the input, {speed:.0f} tokens/s{left}")

    def __enter__(self) -> BatchProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception) -> None:
        self._bar.stop()
