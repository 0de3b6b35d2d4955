"""The drawing of chapter 14: one layer on two ranks, and the two sums where their results meet."""

from __future__ import annotations

from itertools import pairwise

from minfer.course.drawing import BLUE, GREEN, ORANGE, Drawing

STEPS = [  # x, width, text on both ranks, fill
    (0.4, 3.4, "norm: all of x", None),
    (5.0, 3.6, "q, k, v:\nhalf the heads", BLUE),
    (9.4, 3.6, "attention:\nhalf the K/V", BLUE),
    (13.8, 3.6, "o: its\ncolumns", BLUE),
    (20.8, 3.4, "norm: all of x", None),
    (25.4, 3.6, "gate, up:\nhalf the width", GREEN),
    (29.8, 3.6, "down: its\ncolumns", GREEN),
]
SUMS = [18.3, 34.3]


def draw() -> Drawing:
    title = "A layer on two ranks: each has half of the heads and half of the width; two sums, and nothing else is sent"
    drawing = Drawing(38, 9.6, title)
    for rank, y in ((0, 1.4), (1, 5.6)):
        drawing.text(0.4, y - 0.7, f"rank {rank}", bold=True)
        for x, width, text, fill in STEPS:
            drawing.box(x, y, width, 2, text, fill)
        for (x, width, _, _), (then, *_) in pairwise(STEPS):
            if then - x - width < 2:
                drawing.arrow((x + width, y + 1), (then, y + 1))
    for x in SUMS:
        drawing.box(x, 3.9, 1.6, 1.2, "sum", ORANGE)
        drawing.arrow((x - 0.9, 3.4), (x, 4.2))
        drawing.arrow((x - 0.9, 5.6), (x, 4.8))
        drawing.arrow((x + 1.6, 4.2), (x + 2.5, 3.4))
        drawing.arrow((x + 1.6, 4.8), (x + 2.5, 5.6))
    drawing.text(0.4, 8.9, "Filled boxes read weights that no other rank has. Orange: all that crosses between the devices.", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
