"""The drawing of chapter 6: a context in its pages, folded tile by tile, and two splits that are merged."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, SKY, Drawing


def draw() -> Drawing:
    """Pages, tiles, running results, merge, from top to bottom."""
    drawing = Drawing(40, 21, "A context in pages; tiles folded one after the other into a running result; two splits merged")
    drawing.text(0.5, 0.8, "one sequence, one K/V head: 12 tokens in pages of 2, anywhere in the pool", bold=True)
    tokens = [[f"{first}", f"{first + 1}"] for first in (6, 0, 10, 2, 8, 4)]
    for place, pair in enumerate(tokens):
        colour = BLUE if int(pair[0]) < 8 else ORANGE
        drawing.cells(2 + place * 5, 2, pair, colour, width=1.5)
        drawing.text(3.5 + place * 5, 3.5, f"page {(5, 2, 9, 7, 3, 4)[place]}", size=7, align="center")
    drawing.text(0.5, 5, "block table:  2, 7, 4, 5, 3, 9")

    drawing.text(0.5, 7, "split 0: a program", bold=True, colour=BLUE)
    drawing.text(27, 7, "split 1: another program", bold=True, colour=ORANGE)
    left = 0.5
    for number, (tile, colour) in enumerate([("0 1 2 3", BLUE), ("4 5 6 7", BLUE)]):
        drawing.box(left, 8, 5, 1.2, f"keys {tile}", colour)
        drawing.box(left, 10.5, 5, 2.4, "best, total,\nvalues", None)
        drawing.arrow((left + 2.5, 9.2), (left + 2.5, 10.5))
        if number:
            drawing.arrow((left - 7, 11.7), (left, 11.7))
            drawing.text(left - 3.5, 11.2, "× 2^(old − new)", size=8, align="center")
        left += 12
    drawing.box(28, 8, 5, 1.2, "keys 8 9 10 11", ORANGE)
    drawing.box(28, 10.5, 5, 2.4, "best, total,\nvalues", None)
    drawing.arrow((30.5, 9.2), (30.5, 10.5))
    drawing.text(35, 8.6, "a tile is\n4 keys", size=8)

    drawing.box(9.5, 15, 10.5, 1.2, "mean 0, log2 of its sum", SKY)
    drawing.box(25.5, 15, 10.5, 1.2, "mean 1, log2 of its sum", SKY)
    drawing.arrow((15, 12.9), (15, 15), "values / total")
    drawing.arrow((30.5, 12.9), (30.5, 15), "values / total")
    drawing.box(17, 18.5, 12, 1.4, "merge: mean weighed by the sums", GREEN)
    drawing.arrow((15, 16.2), (20, 18.5))
    drawing.arrow((30.5, 16.2), (26, 18.5))
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
