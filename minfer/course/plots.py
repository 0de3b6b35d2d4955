"""Plots for the notebooks: a run's schedule, its pages, a roofline, and the ladder. Each is drawn on axes that the caller made.

From: `recording.py` (steps), or a report's JSON. To: a notebook's figure, in the style of the drawings:

    plt.rcParams.update(STYLE)
    figure, axes = plt.subplots(figsize=(10, 3))
    schedule(axes, steps)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from minfer.course.drawing import BLUE, COLOURS, INK, ORANGE, ink_on
from minfer.course.recording import Step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PREFILL, DECODE, WAITS = BLUE, ORANGE, "none"


def colour_of(seq_id: int) -> str:
    """A sequence's colour, the same in every plot."""
    return COLOURS[seq_id % len(COLOURS)]


def schedule(axes: Axes, steps: Sequence[Step], *, by: str = "step", names: Mapping[int, str] | None = None) -> None:
    """Who computes what: a row a sequence, a bar a step; prompt tokens blue, a decode orange, waiting an outline.

    Args:
        by: "step": all steps are as wide; "time": as wide as they took, in ms.
        names: of the sequences; else "sequence 0" and so on.

    Raises:
        ValueError: `by` is neither.
    """
    edges = _edges(steps, by)
    seen = sorted({work.seq for step in steps for work in step.work} | {seq_id for step in steps for seq_id in step.waiting})
    rows = {seq_id: row for row, seq_id in enumerate(seen)}
    for step, (left, right) in zip(steps, edges, strict=True):
        for seq_id in step.waiting:
            axes.barh(rows[seq_id], right - left, left=left, height=0.7, color=WAITS, edgecolor=INK, linewidth=0.6, linestyle=":")
        for work in step.work:
            prefill = work.start < step.running[work.seq].num_prompt
            colour = PREFILL if prefill else DECODE
            axes.barh(rows[work.seq], right - left, left=left, height=0.7, color=colour, edgecolor=INK, linewidth=0.4)
            if prefill and by == "step":
                look = {"ha": "center", "va": "center", "fontsize": 7, "color": ink_on(colour)}
                axes.text((left + right) / 2, rows[work.seq], str(work.num_new), **look)
    axes.set_yticks(range(len(seen)), [(names or {}).get(seq_id, f"sequence {seq_id}") for seq_id in seen])
    axes.set_ylim(len(seen) - 0.4, -0.6)
    axes.set_xlim(edges[0][0], edges[-1][1])
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("step" if by == "step" else "time, ms")
    bars = {"prompt tokens": PREFILL, "one new token": DECODE, "waits": WAITS}
    handles = [_patch(colour, label) for label, colour in bars.items()]
    axes.legend(handles=handles, ncols=3, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))


def tokens_per_step(axes: Axes, steps: Sequence[Step], *, budget: int | None = None) -> None:
    """How many tokens each step computes, prompt and decode on top of each other; the budget as a dashed line."""
    prefill = [sum(work.num_new for work in step.work if work.start < step.running[work.seq].num_prompt) for step in steps]
    decode = [step.num_new - of_prompts for step, of_prompts in zip(steps, prefill, strict=True)]
    axes.bar(range(len(steps)), decode, width=0.9, color=DECODE, label="one new token each")
    axes.bar(range(len(steps)), prefill, width=0.9, bottom=decode, color=PREFILL, label="prompt tokens")
    if budget is not None:
        axes.axhline(budget, color=INK, linestyle="--", linewidth=1)
        axes.text(len(steps) - 0.5, budget, "budget", va="bottom", ha="right", fontsize=8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("step")
    axes.set_ylabel("tokens computed")
    axes.legend(ncols=2, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))


def page_map(axes: Axes, step: Step, num_blocks: int, block_size: int, *, columns: int = 16) -> None:
    """The pool in one step: a square a block, in its owner's colour as far as it is full; one that several share has a strip of each.

    Args:
        num_blocks: the padding block 0 included; it is hatched, since nobody may hold it.
    """
    owners: dict[int, list[tuple[int, int]]] = {}
    for seq in step.running.values():
        for i, block in enumerate(seq.blocks):
            owners.setdefault(block, []).append((seq.seq_id, min(max(seq.num_computed - i * block_size, 0), block_size)))
    for block in range(num_blocks):
        x, y = block % columns, block // columns
        holders = owners.get(block, [])
        for i, (seq_id, tokens) in enumerate(holders):
            width, filled = 0.86 / len(holders), tokens / block_size
            middle = x - 0.43 + (i + 0.5) * width
            axes.bar(middle, 0.86 * filled, width=width, bottom=y + 0.43 - 0.86 * filled, color=colour_of(seq_id))
            colour = ink_on(colour_of(seq_id) if filled > 0.6 else None)
            axes.text(middle, y, str(seq_id), ha="center", va="center", fontsize=7, color=colour)
        axes.bar(x, 0.86, width=0.86, bottom=y - 0.43, fill=False, edgecolor=INK, linewidth=0.7, hatch="" if block else "////")
    axes.set_xlim(-0.6, columns - 0.4)
    axes.set_ylim((num_blocks - 1) // columns + 0.6, -0.6)
    axes.set_aspect("equal")
    axes.axis("off")


def pages_over_time(axes: Axes, steps: Sequence[Step], num_blocks: int) -> None:
    """Every block's owner in every step: a column a step, a line a block; what is empty is free."""
    for x, step in enumerate(steps):
        for seq in step.running.values():
            axes.bar([x] * len(seq.blocks), 1, width=1, bottom=[block - 0.5 for block in seq.blocks], color=colour_of(seq.seq_id))
    axes.set_xlim(-0.5, len(steps) - 0.5)
    axes.set_ylim(num_blocks - 0.5, 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("step")
    axes.set_ylabel("block")


def roofline(axes: Axes, points: Mapping[str, tuple[float, float]], *, bandwidth: float, peak: float) -> None:
    """What a device can reach at each arithmetic intensity, and where each operation lies.

    Args:
        points: name → (intensity in FLOP a byte, speed in FLOP a second).
        bandwidth: of the device's memory, bytes a second. peak: FLOP a second.
    """
    ridge = peak / bandwidth
    intensities = [intensity for intensity, _ in points.values()]
    low, high = min([*intensities, ridge]) / 4, max([*intensities, ridge]) * 4
    axes.plot([low, ridge, high], [low * bandwidth, peak, peak], color=INK)
    for (name, (intensity, speed)), colour in zip(points.items(), COLOURS * len(points), strict=False):
        axes.plot(intensity, speed, "o", color=colour)
        axes.annotate(f" {name}", (intensity, speed), fontsize=8, color=INK, va="top")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP per byte of memory traffic")
    axes.set_ylabel("FLOP per second")
    axes.set_title(f"ridge at {ridge:.0f} FLOP per byte", fontsize=9)


def _edges(steps: Sequence[Step], by: str) -> list[tuple[float, float]]:
    """Where each step's bar begins and ends."""
    if by == "step":
        return [(i - 0.5, i + 0.5) for i in range(len(steps))]
    if by == "time":
        return [((step.begun - steps[0].begun) * 1e3, (step.ended - steps[0].begun) * 1e3) for step in steps]
    raise ValueError(f"by={by!r} is neither 'step' nor 'time'")


def _patch(colour: str, label: str):
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, edgecolor=INK, linewidth=0.6, linestyle=":" if colour == WAITS else "-", label=label)
