"""The waiting times of a load as a picture: which share of them was at most so long.

From: a `Load`. To: `minfer bench serve --plot`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from minfer.bench.plot import check_matplotlib
from minfer.bench.serve_load import Load, Objective

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = [("time to first token", ["ttft_ms"]), ("time between tokens", ["itl_ms", "tpot_ms"])]
LABELS = {"ttft_ms": "every request", "itl_ms": "every token", "tpot_ms": "mean of a request"}
SHORTEST = 1e-2  # ms: two events in one piece have no time between them, and a logarithmic scale has no zero
STYLES = {"ttft_ms": "0.2", "itl_ms": "0.6", "tpot_ms": "0.2"}


def plot_load(load: Load, objective: Objective, title: str, path: Path) -> None:
    """Write it as the path's ending says: .svg, .png or .pdf."""
    check_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    figure.suptitle(title, fontsize=9)
    times = load.times()
    for axes, (name, series) in zip(figure.subplots(1, 2, sharey=True), PANELS, strict=True):
        draw_shares(axes, {key: times[key] for key in series if times[key]})
        limit = objective.ttft_ms if "ttft_ms" in series else objective.tpot_ms
        if limit is not None:
            axes.axvline(limit, color="0.4", linestyle=":", label="objective")
        axes.set_xscale("log")
        axes.set_xlabel(f"{name}, ms")
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    figure.axes[0].set_ylabel("share that took no longer")
    figure.savefig(path, dpi=150)


def draw_shares(axes: Axes, times: dict[str, list[float]]) -> None:
    """Cumulative shares, on axes that the caller made. Times in seconds."""
    for key, values in times.items():
        axes.ecdf([max(1e3 * value, SHORTEST) for value in values], color=STYLES[key], label=LABELS[key])
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(0, 1)
