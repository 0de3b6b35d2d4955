"""The drawing of chapter 12: what the host sends for two steps of one sequence, and what the device keeps."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing


def draw() -> Drawing:
    title = "The host sends a short message a step; block tables, last tokens and sampling parameters stay on the device, one row each"
    drawing = Drawing(31, 15, title)
    drawing.text(0.5, 0.7, "host: one message a step", bold=True)
    drawing.text(0.5, 2.2, "step 0", size=8)
    drawing.cells(3.2, 1.7, ["row 3", "context 7", "21 at 18", "9 at 19"], [GREEN, GREEN, BLUE, BLUE], width=2.5)
    drawing.cells(14.0, 1.7, ["15", "7", "88", "2", "31", "5", "40"], ORANGE, width=1.2)
    drawing.text(0.5, 3.9, "step 1", size=8)
    drawing.cells(3.2, 3.4, ["row 3", "context 8"], GREEN, width=2.5)
    drawing.cells(14.0, 3.4, ["UNKNOWN"], ORANGE, width=3)
    drawing.text(3.2, 5.1, "who, and how long", size=7)
    drawing.text(8.2, 5.1, "new blocks, and where", size=7)
    drawing.text(14.0, 5.1, "the tokens: id, row, position, place, offset", size=7)

    drawing.text(0.5, 6.9, "device: rows that stay", bold=True)
    drawing.text(3.2, 8.0, "block tables", size=8)
    drawing.text(14.0, 8.0, "last id", size=8)
    drawing.text(18.2, 8.0, "temperature, top k, seed, ...", size=8)
    tables = {1: ["4", "17", "5", "0", "0", "0"], 2: ["0"] * 6, 3: ["21", "9", "0", "0", "0", "0"], 4: ["30", "0", "0", "0", "0", "0"]}
    for line, (row, table) in enumerate(tables.items()):
        y = 8.6 + 1.2 * line
        drawing.text(2.9, y + 0.5, f"row {row}", size=8, align="right")
        fills = [BLUE if row == 3 and entry != "0" else None for entry in table]
        drawing.cells(3.2, y, table, fills, width=1.6)
        drawing.cells(14.0, y, ["512" if row == 3 else ""], PINK if row == 3 else None, width=2)
        drawing.cells(18.2, y, [""] * 4, width=2)
    drawing.arrow((10.7, 4.5), (6.4, 10.9), "", colour=BLUE)
    drawing.arrow((15.0, 10.9), (15.0, 4.5), "", colour=PINK)
    drawing.text(15.3, 6.2, "expand: UNKNOWN becomes 512", size=8)
    drawing.text(3.2, 14.2, "sampled in step 0: feed_back writes 512 into row 3, on the device", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
