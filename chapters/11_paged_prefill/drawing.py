"""The drawing of chapter 11: pages copied into one piece, and the tiles that each program of a chunk reads."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing

COLOURS = (BLUE, GREEN, ORANGE)
START, CHUNK = 4, 3  # tiles before the chunk, and in it


def draw() -> Drawing:
    title = "A chunk's pages are copied into one piece; each program runs over the tiles below the diagonal, and masks the one on it"
    drawing = Drawing(31, 15.5, title)
    drawing.text(0.5, 0.7, "the cache: pages of three sequences, scattered", bold=True)
    owners = [None, 1, 0, 2, 0, 1, 0, None, 2, 0]
    pages = [("", None if owner is None else COLOURS[owner]) for owner in owners]
    tops = drawing.pages(0.5, 1.3, pages, columns=10, width=2.2)
    drawing.text(23.2, 1.9, "block table of the first: 6, 2, 9, 4", size=8)
    drawing.text(19.8, 6.3, "copy: each sequence in one piece", bold=True)
    drawing.cells(0.5, 5.8, ["6", "2", "9", "4"], BLUE, width=2.2)
    drawing.cells(9.6, 5.8, ["5", "1"], GREEN, width=2.2)
    drawing.cells(14.3, 5.8, ["3", "8"], ORANGE, width=2.2)
    for place, page in enumerate((6, 2, 9, 4)):
        drawing.arrow((tops[page][0], 2.9), (1.6 + 2.2 * place, 5.7), colour=BLUE)

    drawing.text(0.5, 8.2, "tiles of one head: queries down, keys to the right", bold=True)
    for query in range(CHUNK):
        y = 9.9 + 1.2 * query
        drawing.text(6.2, y + 0.6, f"program {query}", size=8, align="right")
        for key in range(START + CHUNK):
            x = 6.6 + 2.2 * key
            on_diagonal = key == START + query
            fill = PINK if on_diagonal else BLUE if key < START + query else None
            drawing.box(x, y, 2.2, 1.2, "mask" if on_diagonal else "", fill, dashed=fill is None)
    drawing.interval(6.6, 6.6 + 2.2 * START, 9.5, "context before the chunk")
    drawing.interval(6.6 + 2.2 * START, 6.6 + 2.2 * (START + CHUNK), 9.5, "the chunk")
    drawing.text(6.6, 14.4, "blue: every query sees every key.  dashed: not read", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
