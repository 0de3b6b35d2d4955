"""What the benchmarks ask of an engine's ranks, where it has several: to wait, and to profile.

The functions below run in the ranks, through `ParallelExecutor.ask`. Rank 0 is the one that is profiled.

From: `bench/profile.py` and `bench/steady.py`. To: an Activity for each mark, made where the events are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from minfer.bench.profile import Activity
    from minfer.llm import LLM


def has_ranks(llm: LLM) -> bool:
    """Whether the model is in other processes than this one."""
    return getattr(llm.engine.executor, "parallel", False)


def synchronize(executor: Any) -> None:
    if executor.group.on_gpu:
        torch.cuda.synchronize()


def start(executor: Any) -> None:
    """Begin to profile."""
    if executor.group.rank == 0:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if executor.group.on_gpu:
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        executor.profiler, executor.mark = torch.profiler.profile(activities=kinds), None
        executor.profiler.__enter__()


def begin(executor: Any, mark: str) -> None:
    if executor.group.rank == 0:
        executor.mark = torch.profiler.record_function(mark)
        executor.mark.__enter__()


def end(executor: Any) -> None:
    synchronize(executor)
    if executor.group.rank == 0:
        executor.mark.__exit__(None, None, None)


def stop(executor: Any, steps: dict[str, int]) -> dict[str, Activity] | None:
    """What rank 0 did under each mark."""
    from minfer.bench.profile import activity

    if executor.group.rank != 0:
        return None
    executor.profiler.__exit__(None, None, None)
    events = executor.profiler.events()
    del executor.profiler, executor.mark
    return {name: activity(events, name, count) for name, count in steps.items()}


class RankRecorder:
    """As `bench.profile.Recorder`, for rank 0. It has no timeline: the caller's clock and the rank's are two."""

    def __init__(self, llm: LLM):
        from minfer.bench.timeline import Timeline

        self.llm, self.ask = llm, llm.engine.executor.ask
        self.steps: dict[str, int] = {}
        self.activities: dict[str, Activity] = {}
        self.timeline = Timeline([], [])

    def __enter__(self) -> RankRecorder:
        self.ask(start)
        return self

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        from minfer.bench.profile import MARK

        before = self.llm.stats().num_steps
        self.ask(begin, MARK + name)
        yield
        self.ask(end)
        self.steps[name] = max(1, self.llm.stats().num_steps - before)

    def __exit__(self, kind, *rest) -> None:
        self.activities = self.ask(stop, self.steps)[0] if kind is None else {}
