"""Draws chapter 3: block tables that point into one pool, and two completions that share a block until one of them writes."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing


def draw() -> Drawing:
    drawing = Drawing(37, 18.6, "Two block tables point into one pool; two completions share all blocks of their prompt but the last")
    drawing.text(1, 0.7, "block tables", bold=True)
    drawing.cells(1, 1.5, ["A", "1", "2", "5"], [BLUE, None, None, None], width=1.5)
    drawing.cells(1, 8.0, ["B", "3", "4"], [ORANGE, None, None], width=1.5)
    drawing.text(14, 0.7, "the pool: blocks of 4 tokens, as step 5 of the example leaves them", bold=True)
    blocks = [("padding", None), ("A 0-3", BLUE), ("A 4-7", BLUE), ("B 0-3", ORANGE), ("B 4", ORANGE), ("A 8", BLUE), ("free", None)]
    tops = drawing.pages(11, 4.4, blocks, columns=7, width=3.4)
    for start, number in ((3.25, 1), (4.75, 2), (6.25, 5)):
        drawing.arrow((start, 2.6), tops[number], bend=-0.08)
    for start, number in ((3.25, 3), (4.75, 4)):
        drawing.arrow((start, 7.9), (tops[number][0], tops[number][1] + 1.75), bend=0.08)
    drawing.text(14, 8.5, "A's last block has 3 places left; any free block will do for the next one", size=8)
    drawing.text(1, 11.4, "two completions of one prompt of 6 tokens", bold=True)
    drawing.cells(1, 12.3, ["first", "1", "2"], [GREEN, None, None], width=2)
    drawing.cells(1, 14.0, ["second", "1", "3"], [PINK, None, None], width=2)
    shared = [("padding", None), ("0-3", GREEN), ("4-6", GREEN), ("4-6", PINK)]
    spots = drawing.pages(13, 14.0, shared, columns=4, width=3.4)
    drawing.text(13, 12.4, "readers", size=8)
    for (x, _), count in zip(spots[1:], (2, 1, 1), strict=True):
        drawing.text(x, 12.4, str(count), size=8, align="center")
    right, middle = spots[3][0], spots[2][0]
    drawing.arrow((middle + 0.3, 13.9), (right - 0.3, 13.9), bend=-0.5)
    drawing.text(27.4, 12.8, "a copy, made before the second", size=8)
    drawing.text(27.4, 13.6, "completion writes behind the prompt", size=8)
    drawing.text(1, 17, "block 1 is full of prompt and stays shared; of the block in which the prompt ends each has its own", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
