"""The drawing of chapter 4: two rows and four requests, with static and continuous batching, as minfer's schedulers plan them."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing
from minfer.course.toy_run import plans_of
from minfer.scheduler.continuous import ContinuousScheduler
from minfer.scheduler.static import StaticScheduler
from minfer.types import Plan

REQUESTS = [(0, 3, 6), (0, 2, 2), (0, 4, 3), (0, 2, 4)]
NAMES, COLOURS = "ABCD", (BLUE, ORANGE, GREEN, PINK)
STEP = 2.4  # units a step
ROWS = 2


def lanes(plans: list[Plan]) -> list[tuple[str, list[tuple[float, float, str, str]]]]:
    """A lane a row: in each step the sequence that is there, and the tokens that it computes."""
    spans: list[list[tuple[float, float, str, str]]] = [[] for _ in range(ROWS)]
    for step, plan in enumerate(plans):
        for work in plan.work:
            what = f"{NAMES[work.seq_id]} +{work.num_new}"
            spans[work.row].append((step, 1, what, COLOURS[work.seq_id]))
    return [(f"row {row}", spans[row]) for row in range(ROWS)]


def draw() -> Drawing:
    title = "Two rows, four requests: with static batching row 1 stays empty until A has ended, with continuous batching C takes it"
    drawing = Drawing(30, 13, title)
    for y, name, scheduler in ((0.8, "static batching", StaticScheduler), (7, "continuous batching", ContinuousScheduler)):
        plans = plans_of(scheduler, REQUESTS, rows=ROWS)
        drawing.text(0.4, y, f"{name}: {len(plans)} steps", bold=True)
        drawing.timeline(0.4, y + 1, lanes(plans), scale=STEP, label=3.5)
        for step in range(len(plans)):
            drawing.text(3.9 + (step + 0.5) * STEP, y + 4.4, str(step), size=7, align="center")
        for row, (_, spans) in enumerate(lanes(plans)):
            taken = {start for start, *_ in spans}
            for step in set(range(len(plans))) - taken:
                drawing.box(3.9 + step * STEP, y + 1 + 1.5 * row, STEP, 1, dashed=True)
    drawing.text(0.4, 12.5, "A +3: a prompt of three tokens. A +1: a decode. Dashed: the place is empty.", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
