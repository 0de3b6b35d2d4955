"""The host's time in the four verbs of a loop: schedule, launch, wait, commit.

From: an engine, whose scheduler and executor are watched from outside. To: `bench/breakdown.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from minfer.bench.profile import MARK
from minfer.llm import LLM

VERBS = ("schedule", "launch", "wait", "commit")


class Stopwatch:
    """Adds up the host's time in each of the four verbs while it is entered, and marks them for PyTorch's profiler."""

    def __init__(self, llm: LLM):
        self.scheduler, self.executor = llm.engine.scheduler, llm.engine.executor
        self.seconds: Counter[str] = Counter()

    def __enter__(self) -> Stopwatch:
        launch = self._timed("launch", self.executor.launch)
        self.scheduler.schedule = self._timed("schedule", self.scheduler.schedule)
        self.scheduler.commit = self._timed("commit", self.scheduler.commit)
        self.executor.launch = lambda plan: TimedPending(launch(plan), self)
        return self

    def __exit__(self, *exception) -> None:
        del self.scheduler.schedule, self.scheduler.commit, self.executor.launch

    def _timed(self, verb: str, function: Callable) -> Callable:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                with torch.profiler.record_function(MARK + verb):
                    return function(*args, **kwargs)
            finally:
                self.seconds[verb] += time.perf_counter() - start

        return timed

    def per_step(self, steps: int, ms_per_step: float) -> dict[str, float]:
        """Milliseconds of each verb, and of what is left."""
        verbs = {verb: 1e3 * self.seconds[verb] / steps for verb in VERBS}
        return {**verbs, "rest": ms_per_step - sum(verbs.values())}


class TimedPending:
    """A step in flight, whose `wait` is timed."""

    def __init__(self, pending: Any, watch: Stopwatch):
        self._pending = pending
        self.wait = watch._timed("wait", pending.wait)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pending, name)
