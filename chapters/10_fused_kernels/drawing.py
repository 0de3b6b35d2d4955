"""The drawing of chapter 10: the heads of one token of SmolLM2, which program takes them, and where they go."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, Drawing


def draw() -> Drawing:
    """One row of the product above; programs in the middle; the output and two caches below."""
    drawing = Drawing(38, 19, "Fifteen heads of one token, eight to a program: q goes to the output, k and v to slot 37 of the cache")
    drawing.text(0.5, 0.8, "one token's row of the q|k|v product: 9 + 3 + 3 heads", bold=True)
    heads = [f"q{i}" for i in range(9)] + [f"k{i}" for i in range(3)] + [f"v{i}" for i in range(3)]
    colours = [BLUE] * 9 + [ORANGE] * 3 + [GREEN] * 3
    drawing.cells(1, 2, heads, colours, width=2)
    drawing.box(31, 2, 2, 1, "", None, dashed=True)
    drawing.text(33.4, 2.5, "nothing", size=8)
    drawing.interval(1, 17, 4.6, "program 0")
    drawing.interval(17, 33, 4.6, "program 1")

    drawing.box(1, 7, 16, 1.4, "turn: first · cos − second · sin, second · cos + first · sin", None)
    drawing.box(19, 7, 6, 1.4, "turn", None)
    drawing.box(27, 7, 6, 1.4, "as it is", None)
    drawing.arrow((9, 4.9), (9, 7))
    drawing.arrow((18, 4.9), (15, 7), colour=BLUE)
    drawing.arrow((22, 4.9), (22, 7))
    drawing.arrow((29, 4.9), (29, 7))

    drawing.text(0.5, 11.2, "out, for attention", bold=True)
    drawing.cells(1, 12, [f"q{i}" for i in range(9)], BLUE, width=1.6)
    drawing.arrow((9, 8.4), (9, 12))
    for left, name, colour in ((18, "K", ORANGE), (29, "V", GREEN)):
        drawing.text(left + 4.4, 11.2, f"{name}, pages of 16", bold=True)
        for row, text in enumerate(("block 1", "block 2", "block 3")):
            drawing.box(left, 12 + row * 1.6, 8, 1.2, "", None)
            drawing.text(left - 0.2, 12.6 + row * 1.6, text, size=7, align="right")
        drawing.box(left + 2.5, 13.6, 0.6, 1.2, "", colour)
    drawing.arrow((22, 8.4), (20.8, 13.6), colour=ORANGE)
    drawing.arrow((30, 8.4), (31.8, 13.6), colour=GREEN)
    drawing.text(18, 17.6, "slot 37 = block 2 · 16 + offset 5")
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
