"""The progress bar of `LLM.generate`: requests done, and output tokens a second."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from minfer.outputs import RequestOutput


class TokenProgress:
    """Shown on stderr, and only on a terminal."""

    def __init__(self, total: int, show: bool):
        self._bar = Progress(
            TextColumn("generating"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[speed]:.0f} tokens/s"),
            console=Console(stderr=True),
            disable=not (show and sys.stderr.isatty()),
        )
        self._task = self._bar.add_task("", total=total, speed=0.0)
        self._tokens = 0
        self._start = time.monotonic()

    def finished(self, output: RequestOutput) -> None:
        self._tokens += sum(len(completion.token_ids) for completion in output.outputs)
        self._bar.update(self._task, advance=1, speed=self._tokens / max(time.monotonic() - self._start, 1e-9))

    def __enter__(self) -> TokenProgress:
        self._bar.start()
        return self

    def __exit__(self, *exception) -> None:
        self._bar.stop()
