"""Writes each notebook.ipynb from the script beside it, without outputs: the script is what people edit and what git compares.

From: `notebook.py` of the chapters and notebooks/*.py, in jupytext's percent format. To: the same as .ipynb. `make pairs` runs it.
The same script gives the same bytes: cells are numbered, and nothing of the machine is written down.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat

ROOT = Path(__file__).resolve().parent.parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def scripts(root: Path = ROOT) -> list[Path]:
    """All scripts that a notebook is made of."""
    return sorted([*root.glob("chapters/*/notebook.py"), *root.glob("notebooks/*.py")])


def notebook(script: Path) -> str:
    """The .ipynb that belongs to a script."""
    content = jupytext.read(script, fmt="py:percent")
    content.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    content.nbformat, content.nbformat_minor = 4, 5
    for number, cell in enumerate(content.cells, 1):
        cell.id = f"cell-{number:02}"
    nbformat.validate(content)
    return nbformat.writes(content) + "\n"


def main() -> None:
    for script in scripts():
        script.with_suffix(".ipynb").write_text(notebook(script), encoding="utf-8")


if __name__ == "__main__":
    main()
