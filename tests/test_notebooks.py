"""Notebooks are what their scripts say, without outputs, and keep to the form that all have. `make notebooks` runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("jupytext", reason="the extra `course` brings it")
import pairs

SCRIPTS = pairs.scripts()
NAMES = [str(script.relative_to(pairs.ROOT)) for script in SCRIPTS]


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_a_notebook_is_in_step_with_its_script(script):
    """`make pairs` writes it."""
    notebook = script.with_suffix(".ipynb")
    assert notebook.exists(), f"{notebook} is missing; `make pairs` writes it"
    assert notebook.read_text(encoding="utf-8") == pairs.notebook(script), f"{notebook} is not what its script says; `make pairs`"


@pytest.mark.parametrize("script", SCRIPTS, ids=NAMES)
def test_a_notebook_opens_with_its_title_and_ends_with_words(script):
    """Text first and last, 8 to 20 cells; nothing is installed, and nobody is asked."""
    cells = json.loads(pairs.notebook(script))["cells"]
    assert cells[0]["cell_type"] == cells[-1]["cell_type"] == "markdown"
    assert "".join(cells[0]["source"]).startswith("# ")
    assert 8 <= len(cells) <= 20, f"{len(cells)} cells"
    assert not any(cell.get("outputs") for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert "!pip" not in code
    assert "input(" not in code


@pytest.mark.parametrize("folder", ["chapters", "notebooks"])
def test_every_notebook_has_a_script(folder):
    """One that was made by hand would never be in step with anything."""
    found = {path for path in (pairs.ROOT / folder).rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts}
    assert found == {script.with_suffix(".ipynb") for script in SCRIPTS if script.relative_to(pairs.ROOT).parts[0] == folder}


def test_the_same_script_gives_the_same_bytes(tmp_path: Path):
    script = tmp_path / "a.py"
    script.write_text("# %% [markdown]\n# # Title\n\n# %% nbgrader={\"grade\": true}\n1 + 1\n")
    made = pairs.notebook(script)
    assert made == pairs.notebook(script)
    cells = json.loads(made)["cells"]
    assert [cell["id"] for cell in cells] == ["cell-01", "cell-02"]
    assert cells[1]["metadata"]["nbgrader"] == {"grade": True}
    script.write_text(script.read_text().replace("1 + 1", "1 + 2"))
    assert made != pairs.notebook(script)
