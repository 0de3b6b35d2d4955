"""The drawing of chapter 7: what moves between memory and registers, in nine kernels and in one."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, Drawing

STEPS = [("add", 2, 1), ("to float32", 1, 2), ("square", 2, 2), ("mean", 2, 0), ("+ eps", 0, 0), ("1 / root", 0, 0)]
STEPS += [("scale", 2, 2), ("to 16 bits", 2, 1), ("weight", 1, 1)]


def draw() -> Drawing:
    """An arrow for each unit of 2 bytes a value: up into the registers, down into memory."""
    drawing = Drawing(42, 20, "Nine kernels send a row through memory and back nine times; one kernel reads it once and writes it once")
    drawing.text(0.5, 0.8, "plain: nine kernels, 21 units of 2 bytes a value", bold=True)
    for number, (name, reads, writes) in enumerate(STEPS):
        left = 0.5 + number * 4.6
        drawing.box(left, 1.8, 4, 1.2, name, BLUE)
        arrows(drawing, left + 0.4, reads, up=True, top=3.0)
        arrows(drawing, left + 2.4, writes, up=False, top=3.0)
    drawing.box(0.5, 6, 40.8, 1.2, "memory", None)
    drawing.text(0.5, 10, "fused: one kernel, 4 units", bold=True)
    steps = "x + residual   →   squares   →   sum over the row   →   scale   →   weight:   all in registers"
    drawing.box(0.5, 11, 40.8, 1.6, steps, GREEN)
    drawing.arrow((2, 15.6), (2, 12.6), "x")
    drawing.arrow((6, 15.6), (6, 12.6), "residual")
    drawing.arrow((33, 12.6), (33, 15.6), "sum", colour=ORANGE)
    drawing.arrow((38, 12.6), (38, 15.6), "y", colour=ORANGE)
    drawing.box(0.5, 15.6, 40.8, 1.2, "memory", None)
    drawing.text(0.5, 18.4, "grey arrows: 2 bytes a value read; orange: 2 bytes a value written. A float32 has two arrows.")
    return drawing


def arrows(drawing: Drawing, left: float, count: int, up: bool, top: float) -> None:
    """So many arrows side by side between the kernel above and the memory below."""
    for i in range(count):
        x = left + 0.8 * i
        if up:
            drawing.arrow((x, 6), (x, top))
        else:
            drawing.arrow((x, top), (x, 6), colour=ORANGE)


if __name__ == "__main__":
    draw().save(__file__)
