"""Times the Triton kernels beside what else computes the same, in one run on one card.

From: `kernel_cases.py`. To: `minfer bench kernels`, as a table, a report and a plot.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from minfer.bench.kernel_cases import MINFER, Case, cases
from minfer.bench.timing import Recording, compare, copy_rate
from minfer.errors import MinferError


@dataclass(frozen=True)
class Timing:
    """One contender: microseconds of each repeat, or why there are none."""

    name: str
    microseconds: list[float]
    error: str | None = None

    @property
    def median(self) -> float | None:
        return median(self.microseconds) if self.microseconds else None


@dataclass(frozen=True)
class CaseResult:
    """All contenders of one case; minfer's own first."""

    slot: str
    shape: str
    num_bytes: int
    flops: int
    copy_rate: float  # bytes a second
    timings: list[Timing]

    @property
    def ours(self) -> float | None:
        return self.timings[0].median

    def times_faster(self, timing: Timing) -> float | None:
        """How many times as long as minfer's kernel another takes."""
        return timing.median / self.ours if timing.median and self.ours else None

    def describe(self) -> dict:
        """For a report. Rates are those of the median."""
        return {
            "slot": self.slot,
            "shape": self.shape,
            "bytes": self.num_bytes,
            "flops": self.flops,
            "contenders": [{"name": each.name, **self._describe(each)} for each in self.timings],
        }

    def _describe(self, timing: Timing) -> dict:
        if timing.median is None:
            return {"error": timing.error}
        rate = self.num_bytes / timing.median * 1e6
        return {
            "median_us": timing.median,
            "times_as_long_as_minfer": self.times_faster(timing),
            "gb_per_s": rate / 1e9,
            "share_of_copy": rate / self.copy_rate,
            "tflop_per_s": self.flops / timing.median / 1e6,
            "repeats_us": timing.microseconds,
        }


def check_gpu() -> None:
    """Raises: MinferError where there is no GPU to time kernels on."""
    if not torch.cuda.is_available():
        raise MinferError(
            "minfer bench kernels times GPU kernels, and PyTorch finds no CUDA device; `minfer bench throughput` runs here"
        )


@torch.inference_mode()
def run(
    repeats: int, announce: Callable[[str], None] = lambda name: None, chosen: Iterable[str] = ()
) -> tuple[float, list[CaseResult]]:
    """Time every case, or those of the slots chosen → bytes a second of a plain copy, measured first, and the results."""
    rate = copy_rate(repeats)
    return rate, [measure(case, rate, repeats) for case in wanted(cases(), set(chosen), announce)]


def wanted(every: Iterator[Case], chosen: set[str], announce: Callable[[str], None]) -> Iterator[Case]:
    for case in every:
        if not chosen or case.slot.split(",")[0] in chosen:
            announce(f"{case.slot}, {case.shape}")
            yield case


def measure(case: Case, rate: float, repeats: int) -> CaseResult:
    """A contender that cannot run leaves its reason, and the others run on."""
    recordings, errors = {}, {}
    for name, contender in case.contenders.items():
        try:
            recordings[name] = Recording([functools.partial(contender, i) for i in range(case.sets)])
        except Exception as error:
            if name == MINFER:
                raise
            errors[name] = f"{type(error).__name__}: {error}".splitlines()[0]
    times = dict(zip(recordings, compare(list(recordings.values()), repeats), strict=True))
    timings = [Timing(name, times.get(name, []), errors.get(name)) for name in case.contenders]
    return CaseResult(case.slot, case.shape, case.num_bytes, case.flops, rate, timings)


def plot(results: list[CaseResult], path: Path) -> None:
    """Bars of each contender's time, as a multiple of minfer's, one group a case.

    Raises:
        MinferError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MinferError("the plot needs matplotlib, which is not installed; pip install matplotlib, or leave --plot out") from error
    names = list(dict.fromkeys(timing.name for result in results for timing in result.timings))
    figure = Figure(figsize=(9, 1 + 0.22 * sum(len(result.timings) + 1 for result in results)), layout="constrained")
    axes = figure.subplots()
    at, ticks = 0.0, []
    for result in results:
        ticks.append((at + (len(result.timings) - 1) / 2, f"{result.slot}\n{result.shape}"))
        for timing in result.timings:
            times = result.times_faster(timing) or 0.0
            axes.barh(at, times, color=f"C{names.index(timing.name)}", label=timing.name)
            axes.text(times, at, f" {times:.2f}" if times else " failed", va="center", fontsize=7)
            at += 1
        at += 1
    axes.set_yticks([y for y, _ in ticks], [label for _, label in ticks], fontsize=7)
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("time, as a multiple of minfer's kernel")
    handles, labels = axes.get_legend_handles_labels()
    first = {label: handle for handle, label in reversed(list(zip(handles, labels, strict=True)))}
    axes.legend([first[name] for name in names], names, fontsize=8)
    figure.savefig(path, dpi=150)
