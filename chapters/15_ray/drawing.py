"""The drawing of chapter 15: ranks as actors on whatever hosts have a GPU free, and what goes over the network."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, ORANGE, PINK, Drawing


def draw() -> Drawing:
    title = "The caller sends plans to every rank and takes tokens from rank 0; the sums go between the ranks, wherever they are"
    drawing = Drawing(34, 13.4, title)
    drawing.text(0.4, 0.7, "the caller", bold=True)
    drawing.box(0.4, 1.3, 7, 2, "scheduler, blocks:\nno model, no GPU", PINK)
    drawing.box(0.4, 6.2, 7, 2, "Ray: who has a GPU free,\nand who has died", None, dashed=True)
    hosts = ((1.3, "host A", ("rank 0", "in use")), (7.6, "host B", ("rank 1", "in use")))
    for y, name, gpus in hosts:
        drawing.box(15, y, 16, 4.2)
        drawing.text(15.4, y + 0.7, name, bold=True)
        for i, gpu in enumerate(gpus):
            drawing.box(16 + 7.2 * i, y + 1.4, 6.4, 2, f"GPU {i}: {gpu}", BLUE if gpu != "in use" else None, dashed=gpu == "in use")
    drawing.arrow((7.4, 1.8), (16, 2.9), "plan")
    drawing.arrow((7.4, 3.0), (16, 9.4), "plan")
    drawing.arrow((16, 4.4), (7.4, 2.5), "tokens", bend=-0.2, colour=GREEN)
    drawing.arrow((19.2, 4.7), (19.2, 9.0), "", colour=ORANGE)
    drawing.arrow((20.2, 9.0), (20.2, 4.7), "sums", colour=ORANGE)
    drawing.arrow((7.4, 7.2), (15, 8.6), "are you there", bend=-0.1, dashed=True)
    note = "One bundle for each rank: the two free GPUs are on different hosts, and one bundle of two would wait for ever."
    drawing.text(0.4, 12.8, note, size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
