"""The recorded traces as pages with the player, and the players that stand in other pages.

From: docs/traces/NAME.json, which `scripts/record_traces.py` records. To: traces/NAME.html. A link to a trace that is a paragraph of
its own becomes a frame with the player, at the entry that the link names: `[What it shows](../../docs/traces/page.json#3)`.
"""

from __future__ import annotations

import html
import re
from pathlib import Path

from minfer.trace.page import page
from minfer.trace.trace import Trace

BESIDE = {"refilled": "static", "chunks": "whole", "patience": "arrival"}  # shown as the second of two: what it is better than
ALONE = re.compile(r"^\[(?P<title>[^\]\n]+)\]\((?P<href>(?:[\w./-]*/)?traces/[\w-]+\.html(?:#\w+)?)\)$", re.MULTILINE)


def find(root: Path) -> dict[str, Path]:
    """Trace → its file."""
    return {path.stem: path for path in sorted((root / "docs" / "traces").glob("*.json"))}


def uris(root: Path) -> dict[str, str]:
    """Path in the repository → the page that plays it."""
    return {path.relative_to(root).as_posix(): f"traces/{name}.html" for name, path in find(root).items()}


def players(root: Path) -> dict[str, bytes]:
    """The pages, by uri. Links to chapters lead to those of the site.

    Raises:
        MinferError: a trace is broken, or of another version.
    """
    traces = {name: Trace.load(path) for name, path in find(root).items()}
    pages = {}
    for name, trace in traces.items():
        pair = (traces[BESIDE[name]], trace) if name in BESIDE else (trace, None)
        pages[f"traces/{name}.html"] = page(*pair, chapters="../chapters/{}/index.html").encode()
    return pages


def framed(text: str) -> str:
    """Links to players that are paragraphs of their own, as frames, each with the link below it."""
    return ALONE.sub(_frame, text)


def _frame(match: re.Match) -> str:
    title, href = html.escape(match["title"]), match["href"]
    frame = f'<iframe class="trace" src="{href}" title="{title}" loading="lazy"></iframe>'
    return f'{frame}\n\n*{match["title"]}* · [on a page of its own]({href})'
