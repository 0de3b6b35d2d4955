"""The ladder as a picture: a bar a stage, on a logarithmic scale, each with its speed and how many times the baseline's that is.

From: a ladder's report. To: `minfer ladder --plot`, and notebooks. Shades of grey by default, so that it can be
printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from minfer.errors import MinferError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEFORE, AFTER = "0.82", "0.35"  # the part of a bar that the stage before has too, and what this stage adds


def check_matplotlib() -> None:
    """Raises: MinferError where it is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MinferError("the plot needs matplotlib, which is not installed; pip install matplotlib, or leave --plot out") from error


def plot_ladder(stages: list[dict], title: str, path: Path) -> None:
    """Write it as the path's ending says: .svg, .png or .pdf.

    Args:
        stages: as a report describes them, `with_ratios`.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1.2 + 0.34 * len(stages)), layout="constrained")
    axes = figure.subplots()
    draw_ladder(axes, stages)
    axes.set_title(title, fontsize=9)
    figure.savefig(path, dpi=150)


def draw_ladder(axes: Axes, stages: list[dict], *, before: str = BEFORE, after: str = AFTER) -> None:
    """The bars, on axes that the caller made; before, after: the colours of a bar's two parts."""
    names = [stage["name"] for stage in stages]
    speeds = [stage["tokens_per_s"] for stage in stages]
    axes.barh(names, speeds, color=after)
    axes.barh(names, [min(pair) for pair in zip(speeds, [0.0, *speeds[:-1]], strict=True)], color=before)
    for y, stage in enumerate(stages):
        times = stage["times_baseline"]
        ratio = f"  ({times:.1f} ×)" if times and y else ""
        axes.text(stage["tokens_per_s"], y, f" {stage['tokens_per_s']:,.0f}{ratio}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(min(speeds) / 2, max(speeds) * 4)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("{x:,.0f}" if max(speeds) < 10 * min(speeds) else "")
    axes.set_xlabel("output tokens a second (light: what the stage before reaches too)")
    axes.spines[["top", "right"]].set_visible(False)
