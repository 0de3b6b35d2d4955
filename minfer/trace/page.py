"""The player as one HTML file: style, scripts and traces inside it, so that it opens from disk and asks nobody for anything.

From: `minfer trace view`, or a notebook. To: a browser. The scripts in `player/` are ES modules, as a site may load them; here they are
put one behind the other, without their imports and exports.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from minfer.stages import STAGES
from minfer.trace.compare import first_difference
from minfer.trace.trace import Trace

MODULES = ("colours", "state", "summary", "pages", "words", "panel", "pool", "tables", "batch", "timeline", "view", "player")
CHAPTERS = {  # what is seen → the chapter that explains it
    "pages": ("03_paged", "Chapter 3: pages"),
    "batch": ("04_continuous", "Chapter 4: continuous batching"),
    "preemption": ("04_continuous", "Chapter 4: continuous batching"),
    "chunks": ("05_chunked", "Chapter 5: chunked prefill"),
    "graphs": ("08_cuda_graphs", "Chapter 8: CUDA graphs"),
    "prefix": ("09_prefix_cache", "Chapter 9: the prefix cache"),
    "overlap": ("13_overlapped", "Chapter 13: the overlapped loop"),
}


def page(trace: Trace, other: Trace | None = None, chapters: str | None = None) -> str:
    """The whole file's text.

    other: a second trace to be shown beside the first; the first step where they differ is marked.
    chapters: where links to chapters point, "{}" standing for a chapter's folder; None: this installation's own, if there are any.
    """
    labels = [label(each) for each in (trace, other) if each is not None]
    difference = first_difference(trace, other) if other is not None else None
    content = {
        "labels": labels,
        "traces": [each.content for each in (trace, other) if each is not None],
        "chapters": {topic: _chapter(folder, title, chapters) for topic, (folder, title) in CHAPTERS.items()},
        "difference": difference._asdict() if difference else None,
    }
    parts = {
        "title": html.escape(f"Trace: {' and '.join(labels)}"),
        "style": _read("player.css"),
        "script": script(),
        "data": json.dumps(content, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))


def label(trace: Trace) -> str:
    """The stage, and the parts that were swapped into it."""
    stage, parts = STAGES.get(trace.engine["stage"]), trace.engine["parts"]
    swapped = [f"{slot}={part}" for slot, part in parts.items() if stage is not None and stage.parts().get(slot) != part]
    return ", ".join([trace.engine["stage"], *swapped])


def script(modules: tuple[str, ...] = MODULES) -> str:
    """The modules as one, in an order in which each finds what it needs."""
    return joined(_read(f"{name}.mjs") for name in modules)


def joined(sources: Iterable[str]) -> str:
    """ES modules without their imports and exports, for a page from a disk, where a browser loads no modules."""
    text = re.sub(r"^import [^;]*;\n", "", "\n".join(sources), flags=re.MULTILINE)
    return re.sub(r"^export ", "", text, flags=re.MULTILINE)


def frame_of(text: str, height: int = 900) -> str:
    """The page in a frame of its own, for a notebook's cell."""
    return f'<iframe srcdoc="{html.escape(text)}" style="width:100%;height:{height}px;border:0" title="trace player"></iframe>'


def _chapter(folder: str, title: str, pattern: str | None) -> dict[str, str]:
    if pattern is not None:
        return {"title": title, "href": pattern.replace("{}", folder)}
    package = Path(__file__).parents[1]
    here = next((place for place in (package / "chapters", package.parent / "chapters") if (place / folder).is_dir()), None)
    return {"title": title, "href": (here / folder / "README.md").as_uri()} if here else {"title": title}


def _read(name: str) -> str:
    return files("minfer.trace").joinpath("player", name).read_text(encoding="utf-8")
