"""The drawing of chapter 5: a long prompt arrives while two sequences decode, whole and in pieces, as minfer's schedulers plan it.

Steps are as wide as the tokens that they compute, plus a fixed cost: a picture of time, not a measurement.
"""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, Drawing
from minfer.course.toy_run import plans_of
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.scheduler.continuous import ContinuousScheduler
from minfer.types import Plan

REQUESTS = [(0, 3, 11), (0, 3, 11), (3, 40, 3)]
NAMES, COLOURS = "ABC", (BLUE, ORANGE, GREEN)
BUDGET = 10
FIXED = 8.0  # the cost of a step, in tokens
WIDTH = 27.0  # units, of the longer run


def ends(plans: list[Plan]) -> list[float]:
    """When each step ends, in tokens."""
    at, found = 0.0, []
    for plan in plans:
        at += FIXED + sum(work.num_new for work in plan.work)
        found.append(at)
    return found


def draw() -> Drawing:
    runs = {
        "continuous: the prompt whole": plans_of(ContinuousScheduler, REQUESTS, rows=3, budget=BUDGET),
        f"chunked: at most {BUDGET} tokens a step": plans_of(ChunkedScheduler, REQUESTS, rows=3, budget=BUDGET),
    }
    scale = WIDTH / max(ends(plans)[-1] for plans in runs.values())
    title = "While C's prompt of 40 tokens is computed whole, A and B wait for their next token; in pieces it lets them go on"
    drawing = Drawing(30, 16, title)
    for y, (name, plans) in zip((0.8, 8.4), runs.items(), strict=True):
        drawing.text(0.4, y, name, bold=True)
        lanes = [(letter, []) for letter in NAMES]
        for begun, ended, plan in zip([0.0, *ends(plans)], ends(plans), plans, strict=False):
            for work in plan.work:
                text = f"+{work.num_new}" if work.num_new > 1 else ""
                lanes[work.seq_id][1].append((begun, ended - begun, text, COLOURS[work.seq_id]))
        drawing.timeline(0.4, y + 1, lanes, scale=scale, label=1.6)
        long = max(range(len(plans)), key=lambda step: ends(plans)[step] - (ends(plans)[step - 1] if step else 0))
        drawing.interval(2 + ends(plans)[long - 1] * scale, 2 + ends(plans)[long] * scale, y + 6.3, "longest step")
    drawing.text(0.4, 15.6, "+8: so many prompt tokens. No number: one new token. The width of a step is its cost.", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
