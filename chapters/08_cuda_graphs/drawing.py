"""The drawing of chapter 8: a step launched kernel by kernel, and a batch of three in a recording of four."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing

KERNELS = 7
COLOURS = (BLUE, GREEN, ORANGE)
LAUNCH, RUN = 1.5, 0.6  # lengths: of a launch on the host, of a kernel on the device


def draw() -> Drawing:
    title = "Launched one by one, kernels wait for the host; replayed, they follow each other, on a batch filled up with padding"
    drawing = Drawing(30, 17.2, title)
    drawing.text(0.4, 0.7, "kernel by kernel", bold=True)
    host = [(i * LAUNCH, LAUNCH, "launch", COLOURS[i % 3]) for i in range(KERNELS)]
    device = [((i + 1) * LAUNCH, RUN, "", COLOURS[i % 3]) for i in range(KERNELS)]
    drawing.timeline(0.4, 1.5, [("host", host), ("device", device)], scale=2, label=3.4)
    drawing.text(0.4, 5.6, "replayed", bold=True)
    once = [(0, 1.5, "send", PINK), (1.5, 1.5, "replay", PINK)]
    replayed = [(3 + i * RUN, RUN, "", COLOURS[i % 3]) for i in range(KERNELS)]
    drawing.timeline(0.4, 6.4, [("host", once), ("device", replayed)], scale=2, label=3.4)

    drawing.text(0.4, 10.7, "what the recording reads: memory that never moves", bold=True)
    rows = [
        ("", "row 0", "row 1", "row 2", "padding", "not used"),
        ("token id", "15", "903", "7", "0", ""),
        ("slot", "84", "39", "122", "0", ""),
        ("context", "21", "8", "30", "0", ""),
    ]
    drawing.table(0.4, 11.3, rows, [3.4, 3, 3, 3, 3, 12])
    drawing.interval(3.8, 15.8, 16.5, "a recording of 4 rows")
    drawing.text(16.2, 16.3, "slot 0 lies in block 0, which is nobody's", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
