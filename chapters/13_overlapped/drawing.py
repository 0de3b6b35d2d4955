"""The drawing of chapter 13: the host and the device as two lanes, in the plain loop and in the overlapped one."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing

HOST, WAIT, DEVICE = 1.0, 0.5, 2.5  # lengths of schedule and launch, of commit, and of a step on the device
COLOURS = (BLUE, ORANGE, GREEN, PINK)
STEPS = 4
SCALE = 1.75  # units a unit of time

Spans = list[tuple[float, float, str, str]]


def plain() -> tuple[Spans, Spans]:
    """Schedule and launch, the device, commit: one after the other."""
    host, device, now = [], [], 0.0
    for step in range(STEPS - 1):
        host.append((now, HOST, f"S L {step}", COLOURS[step]))
        device.append((now + HOST, DEVICE, f"step {step}", COLOURS[step]))
        now += HOST + DEVICE
        host.append((now, WAIT, f"C {step}", COLOURS[step]))
        now += WAIT
    return host, device


def overlapped() -> tuple[Spans, Spans]:
    """The host launches step n + 1, then waits for step n and commits it."""
    host, device, now, free, ends = [], [], 0.0, 0.0, []
    for step in range(STEPS):
        host.append((now, HOST, f"S L {step}", COLOURS[step]))
        now += HOST
        free = max(free, now)
        device.append((free, DEVICE, f"step {step}", COLOURS[step]))
        free += DEVICE
        ends.append(free)
        if step:
            now = max(now, ends[step - 1])
            host.append((now, WAIT, f"C {step - 1}", COLOURS[step - 1]))
            now += WAIT
    return host, device


def draw() -> Drawing:
    title = "In the plain loop the device waits while the host plans and commits; in the overlapped loop its steps follow without a gap"
    drawing = Drawing(27, 12.5, title)
    for y, name, (host, device) in ((0.8, "plain", plain()), (6.2, "overlapped", overlapped())):
        drawing.text(0.4, y, name, bold=True)
        drawing.timeline(0.4, y + 0.8, [("host", host), ("device", device)], scale=SCALE, label=3.2)
    first = 3.6 + SCALE * (HOST + DEVICE)
    drawing.interval(first, first + SCALE * (HOST + WAIT), 5.0, "the device waits")
    drawing.text(0.4, 11.2, "S L: schedule and launch a step.  C: wait for it and commit it.", size=8)
    drawing.text(0.4, 12.0, "In the lower half, step 1 is launched while the device still runs step 0: its tokens are pending.", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
