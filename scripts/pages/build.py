"""All pages of the site, their pictures, and the navigation.

From: the repository. To: `site_hooks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minfer.course.library import all_chapters
from minfer.parts import SLOTS
from minfer.stages import STAGES
from pages import chapters, cli, notebooks, plan, slots, stages, traces
from pages.links import Links
from pages.page import Page
from pages.placeholders import fill

TOP = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
COURSE = ("chapters/README.md", "chapters/FORMAT.md", "chapters/CHANGES.md")
SHOWN = {".svg", ".png"}  # of a chapter's folder, and of the reports'


@dataclass
class Site:
    """pages and files by uri; a file is a path or its bytes."""

    pages: dict[str, Page]
    files: dict[str, Path | bytes]
    nav: list


def build(root: Path) -> Site:
    """Read the repository.

    Raises:
        ValueError, ChapterError, RuntimeError, OSError: a page cannot be made; the message says which, and why.
    """
    course = all_chapters(root / "chapters")
    books = notebooks.find(root)
    written = [path for path in sorted(root.glob("docs/**/*.md")) if path.parent.name != "stages"]
    pages = [Page(uri_of(path, root), path.relative_to(root).as_posix(), fill(path.read_text("utf-8"), root)) for path in written]
    pages += [Page(TOP[name], name, (root / name).read_text("utf-8")) for name in ("CHANGELOG.md", "CONTRIBUTING.md")]
    pages += [Page(name, name, (root / name).read_text("utf-8")) for name in COURSE]
    pages += [chapters.page(root, chapter) for chapter in course]
    pages += [stages.page(root, stage, course) for stage in STAGES.values()]
    pages += [slots.page(root, slot) for slot in SLOTS]
    pages.append(cli.page())
    files: dict[str, Path | bytes] = {
        path.relative_to(root).as_posix(): path
        for pattern in ("chapters/*/*", "benchmarks/results/*")
        for path in sorted(root.glob(pattern))
        if path.suffix in SHOWN
    }
    for name, path in books.items():
        page, pictures = notebooks.page(root, name, path)
        pages.append(page)
        files |= pictures
    uris = {page.source: page.uri for page in pages} | TOP | {uri: uri for uri in files}
    uris |= traces.uris(root)
    files |= traces.players(root) | plan.scripts(root)
    links = Links(root, uris)
    linked = [links.rewrite(page) for page in pages]
    sources = links.sources()
    return Site({page.uri: page for page in (*linked, *sources)}, files, navigation(course, books, {page.uri for page in pages}))


def uri_of(path: Path, root: Path) -> str:
    return path.relative_to(root / "docs").as_posix()


def navigation(course: list, books: dict[str, Path], there: set[str]) -> list:
    """As mkdocs wants it; pages that are not there are left out."""
    reference = ["reference/llm.md", "reference/engine.md", "reference/parts.md", "reference/types.md", "reference/testing.md"]
    nav: list = [
        {"Begin": ["install.md", "quickstart.md", "support.md", "faq.md"]},
        {"Learn": ["chapters/README.md", *(f"chapters/{chapter.name}/README.md" for chapter in course), "glossary.md"]},
        {"Notebooks": [f"notebooks/{name}.md" for name in books]},
        {"Stages": ["ladder.md", *(f"stages/{stage.name}.md" for stage in STAGES.values())]},
        {"Slots": ["slots.md", *(f"slots/{slot}.md" for slot in SLOTS), "parity.md"]},
        {"Use": ["serving.md", "batch.md", "many-machines.md"]},
        {"Measure": ["performance.md", "trace.md", "plan.md"]},
        {"Teach": ["instructors.md", "chapters/FORMAT.md", "chapters/CHANGES.md"]},
        {"Reference": [*reference, "reference/cli.md", "design.md", "changelog.md", "contributing.md"]},
    ]
    nav = [{title: [uri for uri in uris if uri in there]} for section in nav for title, uris in section.items()]
    listed = {uri for section in nav for uris in section.values() for uri in uris} | {"index.md"}
    nav[-1]["Reference"] += sorted(there - listed)
    return [{"minfer": "index.md"}, *nav]
