"""Plots show the recording: a bar for each work, a square for each block, each in its place and colour."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="the extra `course` brings it")
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from minfer.course import plots
from minfer.course.recording import Seen, Step
from minfer.trace import Task


def step(number: int, works: dict[int, tuple[int, int]], waiting=(), blocks=None, num_prompt=8) -> Step:
    """works: seq_id → start and number of tokens."""
    work = [Task(seq_id, 0, start, new, True) for seq_id, (start, new) in works.items()]
    blocks = blocks or {}
    seen = {i: Seen(i, num_prompt, start + new, tuple(blocks.get(i, ()))) for i, (start, new) in works.items()}
    return Step(number, work, seen, tuple(waiting), 0, number * 0.010, number * 0.010 + 0.008, tuple(works))


STEPS = [step(0, {0: (0, 8)}, waiting=[1]), step(1, {0: (8, 1), 1: (0, 5)}), step(2, {0: (9, 1), 1: (5, 3)})]


def axes_of():
    return Figure().subplots()


def bars(axes) -> set[tuple]:
    """Left edge, middle height, width and colour of each bar; NOTHING where it is an outline."""
    return {
        (*(round(float(each), 6) for each in (bar.get_x(), bar.get_y() + bar.get_height() / 2, bar.get_width())), colour)
        for bar in axes.patches
        for colour in [to_hex(bar.get_facecolor()) if bar.get_facecolor()[3] else NOTHING]
    }


NOTHING = "none"
PREFILL, DECODE = plots.PREFILL.lower(), plots.DECODE.lower()


def test_a_schedule_has_a_bar_for_each_work():
    axes = axes_of()
    plots.schedule(axes, STEPS, names={1: "B"})
    first = {(-0.5, 0, 1, PREFILL), (-0.5, 1, 1, NOTHING)}
    assert bars(axes) == first | {(0.5, 0, 1, DECODE), (0.5, 1, 1, PREFILL), (1.5, 0, 1, DECODE), (1.5, 1, 1, PREFILL)}
    assert [text.get_text() for text in axes.texts] == ["8", "5", "3"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["sequence 0", "B"]


def test_a_schedule_by_time_has_bars_as_wide_as_the_steps_took():
    axes = axes_of()
    plots.schedule(axes, STEPS, by="time")
    assert {(x, y, width) for x, y, width, _ in bars(axes)} == {(x, y, 8) for x in (0, 10, 20) for y in (0, 1)}
    with pytest.raises(ValueError, match="neither 'step' nor 'time'"):
        plots.schedule(axes_of(), STEPS, by="colour")


def test_tokens_of_a_step_are_stacked():
    axes = axes_of()
    plots.tokens_per_step(axes, STEPS, budget=9)
    heights = [[bar.get_height() for bar in container] for container in axes.containers]
    assert heights == [[0, 1, 1], [8, 5, 3]]
    assert [bar.get_y() for bar in axes.containers[1]] == [0, 1, 1]
    assert list(axes.lines[0].get_ydata()) == [9, 9]


def test_a_page_map_shows_owners_and_how_full_their_blocks_are():
    """Sequence 0 holds blocks 3 and 1 with 6 tokens, sequence 2 shares block 3. Block 0 is hatched."""
    axes = axes_of()
    plots.page_map(axes, step(0, {0: (0, 6), 2: (0, 4)}, blocks={0: (3, 1), 2: (3,)}), 6, 4, columns=4)
    filled = {(x, width, colour) for x, _, width, colour in bars(axes) if colour != NOTHING}
    blue, green = (plots.colour_of(seq_id).lower() for seq_id in (0, 2))
    assert filled == {(0.57, 0.86, blue), (2.57, 0.43, blue), (3.0, 0.43, green)}
    half = next(bar for bar in axes.patches if bar.get_x() == pytest.approx(0.57) and bar.get_facecolor()[3])
    assert half.get_height() == pytest.approx(0.43)
    assert sorted(text.get_text() for text in axes.texts) == ["0", "0", "2"]
    assert [bar.get_hatch() for bar in axes.patches if bar.get_hatch()] == ["////"]


def test_pages_over_time_has_a_line_for_each_block():
    axes = axes_of()
    plots.pages_over_time(axes, [step(0, {1: (0, 4)}, blocks={1: (2,)}), step(1, {1: (4, 1)}, blocks={1: (2, 5)})], 6)
    assert {(x + 0.5, y) for x, y, _, _ in bars(axes)} == {(0, 2), (1, 2), (1, 5)}


def test_a_roofline_bends_at_the_ridge():
    axes = axes_of()
    plots.roofline(axes, {"decode": (1, 2e12), "prefill": (400, 5e14)}, bandwidth=4e12, peak=8e14)
    x, y = axes.lines[0].get_data()
    assert list(x) == [0.25, 200, 1600]
    assert list(y) == [1e12, 8e14, 8e14]
    assert [text.get_text().strip() for text in axes.texts] == ["decode", "prefill"]
