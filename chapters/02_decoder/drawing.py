"""Draws chapter 2: one layer of the decoder, and where its new tokens go in the cache."""

from __future__ import annotations

from minfer.course.drawing import BLUE, ORANGE, PINK, Drawing

STEPS = (("norm", 3), ("qkv\nproduct", 3.4), ("write_kv", 3.8), ("attention", 4), ("output\nproduct", 3.4), ("norm, MLP", 4.4))
YOURS = ("norm", "write_kv", "attention")


def draw() -> Drawing:
    drawing = Drawing(38, 14.2, "A layer: norm, one product for q, k and v, write_kv into slots, attention through block tables, MLP")
    drawing.text(1, 0.7, "5 new tokens, no padding", bold=True)
    drawing.cells(1, 1.5, ["A5", "B0", "B1", "B2", "B3"], [BLUE, ORANGE, ORANGE, ORANGE, ORANGE], width=1.4)
    drawing.arrow((8.2, 2), (9.6, 2))
    left = 10.0
    for text, width in STEPS:
        drawing.box(left, 1.2, width, 1.8, text, PINK if text in YOURS else None)
        if text != "norm, MLP":
            drawing.arrow((left + width, 2.1), (left + width + 0.8, 2.1))
        left += width + 0.8
    drawing.text(1, 3.7, "pink: yours in this chapter", size=8)
    write, read = 20.4, 25.1
    drawing.arrow((write, 3.1), (write, 6.4), "k and v into their slots")
    drawing.arrow((read + 3.4, 8.5), (read + 1.2, 3.1), "keys and values", bend=0.25)
    drawing.text(1, 6.0, "block tables", bold=True)
    drawing.cells(1, 6.7, ["A", "1"], [BLUE, None], width=1.4)
    drawing.cells(1, 8.4, ["B", "2"], [ORANGE, None], width=1.4)
    drawing.text(7.6, 6.0, "the cache of one layer: K, and V alike", bold=True)
    names = (("block 0", []), ("block 1", [BLUE] * 6), ("block 2", [ORANGE] * 4))
    for row, (name, filled) in enumerate(names):
        top = 6.7 + 1.7 * row
        drawing.text(7.6, top + 0.5, name, size=8)
        label = "A" if row == 1 else "B"
        texts = [f"{label}{i}" for i in range(len(filled))] + [""] * (10 - len(filled))
        drawing.cells(11, top, texts, [*filled, *[None] * (10 - len(filled))], width=1.4)
        drawing.text(25.4, top + 0.5, "... 512 places", size=8)
    drawing.arrow((3.9, 7.2), (7.4, 8.7))
    drawing.arrow((3.9, 8.9), (7.4, 10.5))
    drawing.text(7.6, 12.2, "slot of A5 = 1 · 512 + 5 = 517        slot of B2 = 2 · 512 + 2 = 1026", size=9)
    drawing.text(7.6, 13.4, "block 0 takes the writes of padding; the empty places of 1 and 2 are reserved for A and B alone", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
