"""Drawings: the same calls give the same SVG, texts stay texts, colours can be told apart, and the committed files are in step."""

from __future__ import annotations

import itertools
import re
import runpy
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("matplotlib", reason="the extra `course` brings it")
from minfer.course import drawing
from minfer.course.drawing import BLUE, COLOURS, INK, Drawing

SCRIPTS = sorted((Path(__file__).parent.parent / "chapters").glob("*/drawing.py"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
# How red, green and blue light look to an eye that lacks one kind of cone (Machado, Oliveira and Fernandes, 2009; severity 1).
EYES = {
    "all cones": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
WHITE = np.array([0.95047, 1, 1.08883])


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    """CIE L*a*b*, in which a distance of about 2.3 is just noticed."""
    share = TO_XYZ @ light.clip(0, 1) / WHITE
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one: str, other: str) -> float:
    dark, light = sorted((drawing.luminance(one), drawing.luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def in_step(one: str, other: str) -> bool:
    """The same elements, texts and colours; places within a point, since releases of matplotlib differ a little there."""
    said = [(texts_of(svg), re.findall(r"#[0-9a-f]{6}\b", svg)) for svg in (one, other)]
    one, other = (re.sub(r'(id|href|clip-path)="[^"]*"', "", svg) for svg in (one, other))
    if said[0] != said[1] or NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= 1 for a, b in pairs)


def every_kind() -> Drawing:
    canvas = Drawing(30, 12, "Each kind of thing, once")
    canvas.text(1, 1, "100 $ and 5 $", bold=True)
    canvas.cells(1, 2, ["The", "cat", ""], [BLUE, None, INK])
    canvas.box(5, 2, 4, 1, "reserved", dashed=True)
    canvas.table(1, 4, [("row", "blocks"), (0, "3, 7")], [2, 4], fills=[BLUE])
    tops = canvas.pages(12, 4, [("", None), ("A", BLUE), ("B", INK)], columns=2)
    canvas.arrow((7, 5.5), tops[1], "block 1", bend=0.2, dashed=True)
    canvas.interval(1, 4, 3.6, "3 tokens")
    canvas.timeline(1, 8, [("step 1", [(0, 4, "prefill", BLUE), (4, 1, "", INK)])], scale=2)
    canvas.axes.plot([1, 4], [11, 11])  # what is cut at the edge gets an id of its own
    return canvas


def texts_of(svg: str) -> list[str]:
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_same_calls_give_the_same_file():
    """No date, no version and no random id, also when one is drawn twice."""
    canvas = every_kind()
    svg = canvas.svg()
    assert svg == canvas.svg() == every_kind().svg()
    assert "matplotlib" not in svg
    assert re.search(r"\b20\d\d-\d\d", svg) is None


def test_texts_stay_texts():
    """Also those that matplotlib would take for mathematics. The title is what a screen reader reads."""
    svg = every_kind().svg()
    expected = {"100 $ and 5 $", "The", "cat", "reserved", "row", "blocks", "0", "3, 7", "A", "B", "block 1", "3 tokens", "step 1"}
    assert expected <= set(texts_of(svg))
    assert ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}title").text == "Each kind of thing, once"


def test_the_background_is_transparent():
    """Only what was filled is: with one unfilled box there is no fill but "none", and that of the text."""
    canvas = Drawing(4, 4, "One box")
    canvas.box(1, 1, 2, 2)
    assert set(re.findall(r"fill: ([^;\"]+)", canvas.svg())) == {"none"}
    assert canvas.figure.get_facecolor()[3] == 0


@given(x=st.integers(0, 20), y=st.integers(0, 8), width=st.integers(1, 9), height=st.integers(1, 3))
@settings(max_examples=20)
def test_a_box_lies_where_it_was_put(x, y, width, height):
    """In points from the top left: SVG's y runs downwards as the drawing's does."""
    canvas = Drawing(30, 12, "One box")
    canvas.box(x, y, width, height)
    path = re.findall(r'<path d="([^"]*)"', canvas.svg())[-1]
    corners = np.array(NUMBER.findall(path), dtype=float).reshape(-1, 2) / drawing.UNIT
    assert corners.min(axis=0) == pytest.approx((x, y), abs=0.01)
    assert corners.max(axis=0) == pytest.approx((x + width, y + height), abs=0.01)


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="zip"):
        Drawing(4, 4, "").cells(0, 0, ["a", "b"], [BLUE])


@pytest.mark.parametrize("page", ["#ffffff", "#0d1117", "#1e2129"])
@pytest.mark.parametrize("colour", [*COLOURS, INK])
def test_colours_can_be_seen_on_light_and_dark_pages(colour, page):
    """WCAG 2.2 asks for 3 : 1 where a colour carries meaning. The pages: white, GitHub's dark, and that of mkdocs-material."""
    assert contrast(colour, page) >= 3


@pytest.mark.parametrize("fill", [*COLOURS, "#000000", "#ffffff", INK])
def test_text_can_be_read_on_what_is_filled(fill):
    """4.5 : 1, what WCAG 2.2 asks of text."""
    assert contrast(drawing.ink_on(fill), fill) >= 4.5
    assert drawing.ink_on(None) == INK


@pytest.mark.parametrize("eye", EYES)
def test_colours_can_be_told_apart(eye):
    for one, other in itertools.combinations(COLOURS, 2):
        assert np.linalg.norm(lab(EYES[eye] @ linear(one)) - lab(EYES[eye] @ linear(other))) > 9, (one, other)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.parent.name)
def test_the_committed_drawings_are_in_step(script):
    """`make drawings` writes them."""
    drawn = runpy.run_path(str(script))["draw"]().svg()
    committed = script.with_suffix(".svg")
    assert committed.exists(), f"{committed} is missing; `make drawings` writes it"
    assert in_step(drawn, committed.read_text(encoding="utf-8")), f"{committed} is not what {script} draws; run `make drawings`"


def test_a_drawing_that_has_changed_is_noticed():
    """A text, a place, a colour, or one thing more; but not half a point, nor another id."""
    old, moved, more, other_text = (every_kind() for _ in range(4))
    moved.box(1, 1, 1, 1)
    more.box(1, 1.1, 1, 1)
    other_text.text(1, 1, "word")
    svg = old.svg()
    assert in_step(svg, svg.replace("patch_2", "patch_two").replace("21.6", "21.9"))
    assert not in_step(svg, more.svg())
    assert not in_step(moved.svg(), more.svg())
    assert not in_step(svg, other_text.svg())
    assert not in_step(svg, svg.replace("reserved", "preserved"))
    assert not in_step(svg, svg.replace(">step 1<", ">step 2<"))
    assert not in_step(svg, svg.replace("#0072b2", "#0073b2"))
