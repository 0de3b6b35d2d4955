"""A few steps on one axis of time: what the host does, and when the device works.

From: what PyTorch's profiler recorded while `Stopwatch` marked the verbs. To: the report of `minfer bench profile`, and its plot.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from minfer.bench.plot import check_matplotlib

SHADES = {"schedule": "0.25", "launch": "0.5", "wait": "0.88", "commit": "0.65"}
FIRST, STEPS = 2, 3  # the steps that are shown, of those that were profiled


@dataclass(frozen=True)
class Timeline:
    """Times in milliseconds, from the first shown call of `schedule` on."""

    host: list[tuple[str, float, float]]  # (verb, start, end)
    device: list[tuple[float, float]]  # times at which some kernel runs

    def describe(self) -> dict:
        """For a report."""
        return asdict(self)


def timeline(events: list, prefix: str) -> Timeline:
    """STEPS steps of what was profiled; fewer where fewer were.

    Args:
        events: of torch.profiler; the verbs' names begin with `prefix`.
    """
    cpu, cuda = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA
    spans = [(event.name, event.device_type, event.time_range.start, event.time_range.end) for event in events]
    names = {prefix + verb: verb for verb in SHADES}
    host = sorted((start, end, names[name]) for name, kind, start, end in spans if kind == cpu and name in names)
    starts = [start for start, _, verb in host if verb == "schedule"]
    if not starts:
        return Timeline([], [])
    begin = starts[min(FIRST, len(starts) - 1)]
    end = starts[FIRST + STEPS] if len(starts) > FIRST + STEPS else host[-1][1]
    busy = merged(sorted((start, stop) for name, kind, start, stop in spans if kind == cuda and not name.startswith(prefix)))

    def at(time: float) -> float:
        return (min(max(time, begin), end) - begin) / 1e3

    return Timeline(
        [(verb, at(start), at(stop)) for start, stop, verb in host if start < end and stop > begin],
        [(at(start), at(stop)) for start, stop in busy if start < end and stop > begin],
    )


def merged(spans: list[tuple[float, float]], closer: float = 20.0) -> list[tuple[float, float]]:
    """The union of intervals, given in the order of their starts; pauses shorter than `closer` (microseconds) are left out."""
    found: list[tuple[float, float]] = []
    for first, last in spans:
        if found and first - found[-1][1] < closer:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def plot_timeline(steps: dict, title: str, path: Path) -> None:
    """Two lanes, host and device; write it as the path's ending says: .svg, .png or .pdf.

    Args:
        steps: a timeline as a report has it.
    """
    check_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(8, 1.9), layout="constrained")
    axes = figure.subplots()
    for verb, start, end in steps["host"]:
        axes.barh("host", end - start, left=start, color=SHADES[verb], height=0.6)
    for start, end in steps["device"]:
        axes.barh("device", end - start, left=start, color="0.35", height=0.6)
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    axes.set_title(title, fontsize=8, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(handles=[Patch(color=shade, label=verb) for verb, shade in SHADES.items()], ncols=4, fontsize=7, loc="upper right",
                bbox_to_anchor=(1, 1.3), frameon=False)  # fmt: skip
    figure.savefig(path, dpi=150)
