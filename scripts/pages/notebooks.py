"""Notebooks as pages, with their outputs.

From: chapters/NN_slug/notebook.ipynb and notebooks/*.ipynb, which are committed without outputs. They are run here, and what came out
is kept in build/notebooks under a key of their content, so that only a notebook that changed is run again. DOCS_NOTEBOOKS=0 runs
none: pages then have the outputs that are there already, or none. To: notebooks/NAME.md and the pictures beside it.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from pathlib import Path

import minfer
from pages.page import Page, fence

SECONDS = 180  # for one cell
LIMIT = 6000  # characters of one output
log = logging.getLogger("mkdocs.pages.notebooks")


def find(root: Path) -> dict[str, Path]:
    """Name on the site → notebook."""
    chapters = {path.parent.name: path for path in sorted(root.glob("chapters/*/notebook.ipynb"))}
    return {path.stem: path for path in sorted(root.glob("notebooks/*.ipynb"))} | chapters


def page(root: Path, name: str, path: Path) -> tuple[Page, dict[str, bytes]]:
    """The page, and its pictures by uri."""
    import nbformat

    source = path.relative_to(root).as_posix()
    content, ran = outputs(root, path)
    book = nbformat.reads(content, as_version=4)
    pictures: dict[str, bytes] = {}
    parts = []
    for number, cell in enumerate(book.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        elif cell.cell_type == "code":
            parts.append(fence(cell.source))
            parts += [shown for out in cell.get("outputs", []) if (shown := output(out, name, number, pictures))]
        if number == 0:
            parts.append(head(source, ran))
    return Page(f"notebooks/{name}.md", source, "\n\n".join(parts) + "\n"), pictures


def head(source: str, ran: bool) -> str:
    how = f"It is a notebook: open `{source}` of a clone in Jupyter or an editor. `make notebooks` runs all of them."
    return f"{how} {'Outputs are those of a CPU.' if ran else 'This build of the site did not run it, so there are no outputs below.'}"


def outputs(root: Path, path: Path) -> tuple[str, bool]:
    """The notebook as JSON, and whether it has its outputs."""
    source = path.read_text(encoding="utf-8")
    key = hashlib.sha256(f"{minfer.__version__}{source}".encode()).hexdigest()[:16]
    kept = root / "build" / "notebooks" / f"{path.parent.name}-{path.stem}-{key}.ipynb"
    if kept.is_file():
        return kept.read_text(encoding="utf-8"), True
    if os.environ.get("DOCS_NOTEBOOKS") == "0":
        return source, False
    ran = run(source, path)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(ran, encoding="utf-8")
    return ran, True


def run(source: str, path: Path) -> str:
    """Run it from top to bottom.

    Raises:
        RuntimeError: a cell failed, or took too long; the message says which notebook.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    log.info("running %s", path)
    book = nbformat.reads(source, as_version=4)
    try:
        NotebookClient(book, timeout=SECONDS, resources={"metadata": {"path": str(path.parent)}}).execute()
    except (CellExecutionError, CellTimeoutError) as error:
        raise RuntimeError(f"{path} does not run: {error}\nDOCS_NOTEBOOKS=0 builds the site without running notebooks") from error
    return nbformat.writes(book)


def output(out: dict, name: str, number: int, pictures: dict[str, bytes]) -> str:
    """What a cell printed or drew, as Markdown; what it wrote to stderr is left out."""
    if out["output_type"] == "stream":
        return printed(out["text"]) if out["name"] == "stdout" else ""
    data = out.get("data", {})
    for kind, ending in (("image/png", "png"), ("image/svg+xml", "svg")):
        if kind in data:
            picture = f"{name}-{number}-{len(pictures)}.{ending}"
            pictures[f"notebooks/{picture}"] = base64.b64decode(data[kind]) if ending == "png" else data[kind].encode()
            return f"![What the cell above draws]({picture})"
    return printed(data["text/plain"]) if "text/plain" in data else ""


def printed(text: str) -> str:
    text = text.strip("\n")
    if not text:
        return ""
    short = text if len(text) <= LIMIT else text[:LIMIT] + "\n... and more"
    return '<div class="output" markdown>\n\n' + fence(short, "text") + "\n\n</div>"
