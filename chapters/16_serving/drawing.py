"""The drawing of chapter 16: one long request and short ones on one row, in three orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minfer.course.drawing import BLUE, ORANGE, PINK, Drawing

SCALE = 1.25  # units a unit of time
A_PLACE = 1.5  # of length that a later request must be shorter, for each place


class Asked(NamedTuple):
    place: int
    name: str
    due: float
    length: float


LENGTHS = [("X", 0.0, 2.0), ("L", 0.4, 6.0), *(("abcdef"[i], 0.8 + 2 * i, 2.0) for i in range(6))]
REQUESTS = [Asked(place, *each) for place, each in enumerate(LENGTHS)]
ORDERS: dict[str, Callable[[Asked], tuple]] = {
    "first come": lambda asked: (asked.place,),
    "shortest": lambda asked: (asked.length, asked.place),
    "with patience": lambda asked: (asked.length + A_PLACE * asked.place, asked.place),
}
COLOURS = {"X": PINK, "L": ORANGE}


def served(key: Callable[[Asked], tuple]) -> list[tuple[float, float, str, str]]:
    """Spans of one row: whenever it is free, the one with the lowest key of those that are there."""
    waiting, now, spans = list(REQUESTS), 0.0, []
    while waiting:
        here = [asked for asked in waiting if asked.due <= now]
        chosen = min(here, key=key)
        waiting.remove(chosen)
        spans.append((now, chosen.length, chosen.name, COLOURS.get(chosen.name, BLUE)))
        now += chosen.length
    return spans


def draw() -> Drawing:
    title = "A long request and short ones on one row, by arrival, shortest first, and shortest first with patience"
    drawing = Drawing(32, 12.2, title)
    left = 5.2
    drawing.text(left - 0.4, 1.5, "arrive", size=8, align="right")
    for asked in REQUESTS:
        x = left + asked.due * SCALE
        drawing.arrow((x, 1.9), (x, 2.7))
        drawing.text(x, 1.5, asked.name, size=8, align="center")
    lanes = {name: served(key) for name, key in ORDERS.items()}
    for i, (name, spans) in enumerate(lanes.items()):
        y = 3.0 + 2.7 * i
        drawing.timeline(0.4, y, [(name, spans)], scale=SCALE, label=4.8)
        begin = next(start for start, _, text, _ in spans if text == "L")
        due = next(asked.due for asked in REQUESTS if asked.name == "L")
        drawing.interval(left + due * SCALE, left + begin * SCALE, y + 1.9, "L waits" if begin - due > 2 else "")
    drawing.box(0.4, 11.0, 0.8, 0.7, "", ORANGE)
    drawing.text(1.5, 11.35, "the long request, L", size=8)
    drawing.box(8.4, 11.0, 0.8, 0.7, "", BLUE)
    drawing.text(9.5, 11.35, "short ones, a to f", size=8)
    drawing.box(16.4, 11.0, 0.8, 0.7, "", PINK)
    drawing.text(17.5, 11.35, "X, which runs already", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
