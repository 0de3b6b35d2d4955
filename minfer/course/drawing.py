"""Drawings for the chapters: boxes, cells, page pools, tables, timelines and arrows, written as SVG that reads in light and dark.

From: a chapter's `drawing.py`, whose `draw()` returns a Drawing. To: `drawing.svg` beside it; `make drawings` writes them all.

    drawing = Drawing(30, 8, "A block table points into the pool of pages")
    drawing.cells(1, 1, ["The", "cat", "sat"], BLUE)
    drawing.arrow((4, 2), (4, 4), "block 3")

Coordinates are in units of UNIT points from the top left, y downwards; one unit is a cell that holds two or three characters.
The same calls give the same SVG. Needs matplotlib, which the extra `course` brings.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

UNIT = 18  # points
INK = "#7b7b7b"  # lines and text: about equally far from white and from black
BLUE, ORANGE, GREEN, PINK, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#4295CB"
COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY)  # told apart with each common kind of colour blindness, on white and on black
STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "minfer",
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), INK),
}  # matplotlib's settings, for drawings and for the plots of notebooks alike: plt.rcParams.update(STYLE)

Point = tuple[float, float]
Fill = str | Sequence[str | None] | None
Span = tuple[float, float, str, str]  # of a timeline: start, length, text, colour


def luminance(colour: str) -> float:
    """Relative luminance of "#rrggbb", 0 for black to 1 for white (WCAG 2.2)."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def ink_on(fill: str | None) -> str:
    """The colour of text on a filled box: whichever of black and white is further away; INK where nothing is filled."""
    if fill is None:
        return INK
    return "#ffffff" if (1.05 / (luminance(fill) + 0.05)) >= (luminance(fill) + 0.05) / 0.05 else "#000000"


class Drawing:
    """A canvas of width x height units. `title` says in a sentence what there is to see; screen readers read it out."""

    def __init__(self, width: float, height: float, title: str):
        self.title = title
        with matplotlib.rc_context(STYLE):
            self.figure = Figure(figsize=(width * UNIT / 72, height * UNIT / 72))
            self.axes = self.figure.add_axes((0, 0, 1, 1))
        self.axes.set_xlim(0, width)
        self.axes.set_ylim(height, 0)
        self.axes.axis("off")

    def text(
        self, x: float, y: float, text: str, *, size: float = 9, align: str = "left", colour: str = INK, bold: bool = False
    ) -> None:
        """Text whose middle line is at y; align says which end of it is at x: left, center or right."""
        weight = "bold" if bold else "normal"
        with matplotlib.rc_context(STYLE):
            self.axes.text(x, y, text, fontsize=size, ha=align, va="center", color=colour, weight=weight, parse_math=False)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        text: str = "",
        fill: str | None = None,
        *,
        size: float = 8,
        dashed: bool = False,
        edge: str = INK,
    ) -> None:
        """A rectangle with its text in the middle. Nothing filled: an outline; dashed: reserved, planned, or not there yet."""
        colour = fill or "none"
        line = {"edgecolor": edge, "linewidth": 0.9, "linestyle": "--" if dashed else "-"}
        patch = Rectangle((x, y), width, height, facecolor=colour, clip_on=False, **line)
        self.axes.add_patch(patch)
        if text:
            self.text(x + width / 2, y + height / 2, text, size=size, align="center", colour=ink_on(fill))

    def cells(self, x: float, y: float, texts: Iterable[object], fill: Fill = None, *, width: float = 1, size: float = 8) -> None:
        """A row of touching cells, such as tokens or slots; `fill` is one colour for all, or one each. "" leaves a cell empty."""
        texts = [str(text) for text in texts]
        fills = [fill] * len(texts) if fill is None or isinstance(fill, str) else fill
        for i, (text, colour) in enumerate(zip(texts, fills, strict=True)):
            self.box(x + i * width, y, width, 1, text, colour, size=size)

    def pages(self, x: float, y: float, pages: Sequence[tuple[str, str | None]], *, columns: int, width: float = 2) -> list[Point]:
        """A pool of pages, numbered by place, each with text and colour (None: free) → the middle of each page's upper edge."""
        tops = []
        for number, (text, colour) in enumerate(pages):
            left, top = x + number % columns * width, y + number // columns * 1.7
            self.box(left, top, width, 1.2, text, colour)
            self.text(left + width / 2, top + 1.42, str(number), size=6, align="center")
            tops.append((left + width / 2, top))
        return tops

    def table(
        self, x: float, y: float, rows: Sequence[Sequence[object]], widths: Sequence[float], *, fills: Sequence[str | None] = ()
    ) -> None:
        """Rows of cells under a bold first row. `fills`: the colour of each later row's first cell."""
        for i, row in enumerate(rows):
            left = x
            for j, (value, width) in enumerate(zip(row, widths, strict=True)):
                if i == 0:
                    self.text(left + width / 2, y + 0.5, str(value), size=8, align="center", bold=True)
                else:
                    self.box(left, y + i, width, 1, str(value), fills[i - 1] if fills and j == 0 else None)
                left += width

    def arrow(self, start: Point, end: Point, text: str = "", *, bend: float = 0.0, colour: str = INK, dashed: bool = False) -> None:
        """An arrow with its text beside the middle. bend: how far it bows, as a share of its length; above 0: to the right."""
        style = "--" if dashed else "-"
        look = {"arrowstyle": "-|>", "mutation_scale": 9, "linewidth": 1.1, "linestyle": style, "shrinkA": 0, "shrinkB": 0}
        shape = f"arc3,rad={bend}"
        self.axes.add_patch(FancyArrowPatch(start, end, connectionstyle=shape, color=colour, clip_on=False, **look))
        if text:
            x, y = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
            self.text(x + 0.25 - bend * (end[1] - start[1]) / 2, y - 0.4 + bend * (end[0] - start[0]) / 2, text, size=8)

    def interval(self, x0: float, x1: float, y: float, text: str) -> None:
        """A measured length |←  text  →|, the text above it."""
        look = {"arrowstyle": "|-|,widthA=0.2,widthB=0.2", "mutation_scale": 10, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
        self.axes.add_patch(FancyArrowPatch((x0, y), (x1, y), color=INK, clip_on=False, **look))
        self.text((x0 + x1) / 2, y - 0.55, text, size=8, align="center")

    def timeline(self, x: float, y: float, lanes: Sequence[tuple[str, Sequence[Span]]], *, scale: float = 1, label: float = 4) -> None:
        """Lanes one below the other, each with its name (in `label` units at the left) and its spans; `scale` units a unit of time."""
        for i, (name, spans) in enumerate(lanes):
            top = y + i * 1.5
            self.text(x + label - 0.4, top + 0.5, name, size=8, align="right")
            for start, length, text, colour in spans:
                self.box(x + label + start * scale, top, length * scale, 1, text, colour)

    def svg(self) -> str:
        """The drawing as an SVG document, without a background, a date, or a version."""
        buffer = io.StringIO()
        with matplotlib.rc_context(STYLE):
            self.figure.savefig(buffer, format="svg", metadata={"Title": self.title, "Date": None, "Creator": None})
        return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())

    def save(self, script: str) -> None:
        """Write it beside the script that drew it: `draw().save(__file__)`."""
        Path(script).with_suffix(".svg").write_text(self.svg(), encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg()
