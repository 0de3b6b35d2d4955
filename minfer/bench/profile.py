"""What the device does in some steps, as PyTorch's profiler sees it: kernels by name, launches, and the gaps between kernels.

From: an engine in a steady state. To: the ladder, and `bench/breakdown.py`.
The profiler slows what runs after it in the same process, and the host while it records: so times are taken elsewhere, and before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import torch

from minfer.bench.ranks import RankRecorder, has_ranks
from minfer.bench.steady import decoding, no_room, seconds_of, synchronize
from minfer.bench.timeline import Timeline, timeline
from minfer.llm import LLM

PROMPT = 16  # tokens
WARM, TIMED, PROFILED = 6, 16, 8  # decode steps
STEPS = WARM + TIMED
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")
MARK = "minfer: "


@dataclass(frozen=True)
class Kernel:
    """All calls of one kernel (on a CPU: of one operator, without those it calls)."""

    name: str
    count: float  # a step
    microseconds: float  # a step
    share: float  # of the time of all kernels


@dataclass(frozen=True)
class Activity:
    """What was recorded under one mark, for each of its steps."""

    steps: int
    launches: float  # kernels, graphs, copies and fills that the host starts
    device_ms: float  # in which some kernel runs; 0 without a GPU
    gaps: float  # times at which no kernel runs, between the first and the last
    gap_us: float  # all of them together
    median_gap_us: float
    kernels: list[Kernel]  # the longest first

    def describe(self) -> dict:
        """For a report."""
        return asdict(self)


class Recorder:
    """Profiles what runs under a mark; a trace for chrome://tracing or Perfetto can be written at the end."""

    def __init__(self, llm: LLM, trace: Path | None = None):
        self.llm, self.trace = llm, trace
        self.steps: dict[str, int] = {}
        self.activities: dict[str, Activity] = {}
        self.timeline = Timeline([], [])  # where a Stopwatch marked the verbs

    def __enter__(self) -> Recorder:
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if self.llm.config.device.type == "cuda":
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        self._profiler = torch.profiler.profile(activities=kinds)
        self._profiler.__enter__()
        return self

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        """What runs within it, and what the device does meanwhile, counts as `name`."""
        before = self.llm.stats().num_steps
        with torch.profiler.record_function(MARK + name):
            yield
            synchronize(self.llm)
        self.steps[name] = max(1, self.llm.stats().num_steps - before)

    def __exit__(self, kind, *rest) -> None:
        self._profiler.__exit__(kind, *rest)
        if kind is None:
            events = self._profiler.events()
            self.activities = {name: activity(events, name, steps) for name, steps in self.steps.items()}
            self.timeline = timeline(events, MARK)
            if self.trace is not None:
                self._profiler.export_chrome_trace(str(self.trace))


def recorder(llm: LLM, trace: Path | None = None) -> Recorder | RankRecorder:
    """The one that sees the engine's device."""
    return RankRecorder(llm) if has_ranks(llm) else Recorder(llm, trace)


def activity(events: list, name: str, steps: int) -> Activity:
    """Sort out what torch.profiler recorded under a mark."""
    cpu, cuda = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA
    (mark,) = (event.time_range for event in events if event.name == MARK + name and event.device_type == cpu)
    inside = [event for event in events if mark.start <= event.time_range.start < mark.end and not event.name.startswith(MARK)]
    on_device = [event for event in inside if event.device_type == cuda]
    launches = sum(event.name.startswith(LAUNCHES) for event in inside if event.device_type == cpu)
    spans = sorted((event.time_range.start, event.time_range.end) for event in on_device)
    pauses = gaps(spans)
    if on_device:
        kernels = by_name(on_device, lambda event: event.time_range.elapsed_us(), steps)
    else:
        kernels = by_name(inside, lambda event: event.self_cpu_time_total, steps)
    return Activity(
        steps,
        launches / steps,
        covered(spans) / steps / 1e3,
        len(pauses) / steps,
        sum(pauses) / steps,
        median(pauses) if pauses else 0.0,
        kernels,
    )


def by_name(events: list, microseconds: Callable, steps: int) -> list[Kernel]:
    """The events' times added up, the longest first."""
    times: dict[str, list[float]] = defaultdict(list)
    for event in events:
        times[event.name].append(microseconds(event))
    total = sum(map(sum, times.values())) or 1.0
    kernels = [Kernel(name, len(each) / steps, sum(each) / steps, sum(each) / total) for name, each in times.items()]
    return sorted(kernels, key=lambda kernel: -kernel.microseconds)


def covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals, given in the order of their starts."""
    total, end = 0.0, float("-inf")
    for first, last in spans:
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total


def gaps(spans: list[tuple[float, float]]) -> list[float]:
    """Lengths of the pauses between intervals, given in the order of their starts."""
    found, end = [], None
    for first, last in spans:
        if end is not None and first > end:
            found.append(first - end)
        end = last if end is None else max(end, last)
    return found


@dataclass(frozen=True)
class StepProfile:
    """Of decode steps with `batch` sequences."""

    batch: int
    ms_per_step: float
    launches_per_step: float | None = None  # kernels, graphs, copies and fills that the host starts; None: not profiled
    gpu_busy: float | None = None  # share of ms_per_step in which some kernel runs


def time_decode(llm: LLM, batch: int) -> StepProfile | None:
    """How long a decode step takes, without the profiler; None where there is no room for the steps."""
    if no_room(llm, batch, PROMPT, STEPS + 2) is not None:
        return None
    with decoding(llm, batch, PROMPT, STEPS):
        seconds_of(llm, WARM)
        return StepProfile(batch, 1e3 * seconds_of(llm, TIMED))


def profile_decode(llm: LLM, timed: StepProfile) -> StepProfile:
    """The same steps under the profiler: launches, and the share of the time measured before in which the GPU works."""
    with decoding(llm, timed.batch, PROMPT, STEPS):
        seconds_of(llm, WARM)
        with recorder(llm) as recording, recording.mark("decode"):
            seconds_of(llm, PROFILED)
    seen = recording.activities["decode"]
    return StepProfile(timed.batch, timed.ms_per_step, seen.launches, min(1.0, seen.device_ms / timed.ms_per_step))
