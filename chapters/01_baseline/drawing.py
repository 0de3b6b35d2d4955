"""Draws chapter 1: one step of the baseline, from padded prompts to the race that picks a token."""

from __future__ import annotations

from minfer.course.drawing import BLUE, GREEN, INK, ORANGE, PINK, Drawing

PROMPTS = [["the", "sea", "is"], ["two", "and", "two", "are"], ["why", "?"]]
RACE = [("calm", 0.0, 1.0), ("blue", 1.0, -2.0), ("here", 3.0, -1.0)]  # token, distance, log E


def draw() -> Drawing:
    drawing = Drawing(37, 14.5, "Prompts padded on the left, the model and its K/V cache, a row of logits each, the race of the tokens")
    longest = max(map(len, PROMPTS))
    drawing.text(1, 0.7, "a batch, padded on the left", bold=True)
    for row, prompt in enumerate(PROMPTS):
        padding = longest - len(prompt)
        drawing.cells(1, 1.5 + 1.4 * row, [""] * padding + prompt, [None] * padding + [BLUE] * len(prompt), width=2)
    drawing.text(1, 6.2, "empty: padding, computed and thrown away", size=8)
    drawing.arrow((9.3, 3.5), (11.7, 3.5))
    drawing.box(12, 1.5, 6, 4, "transformers'\nmodel", None, size=9)
    drawing.box(12, 8, 6, 2, "its K/V cache", PINK, size=9)
    drawing.arrow((14, 5.6), (14, 7.9), "write", bend=0)
    drawing.arrow((16.5, 7.9), (16.5, 5.6), "read", bend=0)
    drawing.arrow((18.3, 3.5), (20.7, 3.5))
    drawing.text(21, 0.7, "logits: a number for each token", bold=True)
    for row in range(3):
        drawing.cells(21, 1.5 + 1.4 * row, ["6", "4", "0", "..."] if row == 0 else ["", "", "", "..."], None, width=1.6)
    drawing.arrow((27.6, 2), (29.6, 2))
    drawing.box(30, 1.5, 5, 4, "sample\nyours", ORANGE, size=9)
    drawing.arrow((32.5, 5.6), (32.5, 8.3))
    drawing.text(21.2, 7.6, "the race of row 1, at temperature 2", bold=True)
    origin, scale = 28.6, 1.7
    for row, (name, distance, noise) in enumerate(RACE):
        top = 8.6 + 1.5 * row
        total = distance + noise
        wins = total == min(d + e for _, d, e in RACE)
        drawing.text(23.2, top + 0.5, f"{name}: {distance:g} {'+' if noise > 0 else '−'} {abs(noise):g}", size=8, align="center")
        left, width = (origin, total * scale) if total >= 0 else (origin + total * scale, -total * scale)
        drawing.box(left, top, width, 1, "first" if wins else "", GREEN if wins else BLUE)
    drawing.arrow((origin, 8.2), (origin, 13.2), colour=INK, dashed=True)
    drawing.text(origin, 13.7, "0", size=8, align="center")
    drawing.text(30.2, 13.7, "distance + log E →", size=8)
    drawing.text(1, 13.7, "the winner is appended to its sequence, and the next step begins", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
