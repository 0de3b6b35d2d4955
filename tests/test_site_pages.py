"""How pages are made from the repository's texts: links, placeholders, bars, solutions, notebooks. Needs no mkdocs and no browser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from pages import chapters, ladders, notebooks
from pages.links import Links
from pages.page import Page, fence
from pages.placeholders import fill

ROOT = Path(__file__).resolve().parent.parent
URIS = {"docs/design.md": "design.md", "chapters/01_baseline/README.md": "chapters/01_baseline/README.md", "README.md": "index.md"}


def rewritten(text: str, uri: str = "stages/paged.md", source: str = "docs/stages/paged.md") -> str:
    return Links(ROOT, URIS).rewrite(Page(uri, source, text)).text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[a](../design.md#slots)", "[a](../design.md#slots)"),
        ("[a](../../chapters/01_baseline/README.md)", "[a](../chapters/01_baseline/README.md)"),
        ("[a](../../README.md)", "[a](../index.md)"),
        ("[a](../../minfer/types.py)", "[a](../source/minfer/types.py.md)"),
        ("see `minfer/types.py`", "see [`minfer/types.py`](../source/minfer/types.py.md)"),
        ("39<!--n ladder:x .0f-->40<!--/n-->", "3940"),
        ("[a](../nowhere.md)", "[a](../nowhere.md)"),  # mkdocs says that it is broken
    ],
)
def test_links_lead_to_pages_of_the_site(text, wanted):
    assert rewritten(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "[a](https://example.org/docs/design.md)",
        "[a](#slots)",
        "[a](mailto:a@example.org)",
        "[a](/etc/hostname)",  # no file of the repository
        "[a](../../../../../etc/hostname)",
        "`minfer/none.py`",
        "`[a](../design.md)`",
        "# `minfer/types.py`",
        "[`minfer/types.py`](https://example.org)",
        "```\n[a](../../README.md) `minfer/types.py` <!-- kept -->\n```\n",
        "`../../../etc/passwd`",
    ],
)
def test_what_is_no_link_to_the_repository_is_left_alone(text):
    assert rewritten(text) == text


def test_a_linked_source_gets_a_page_that_search_leaves_out():
    links = Links(ROOT, {})
    links.rewrite(Page("a.md", "docs/a.md", "`minfer/types.py` and [it](../minfer/types.py)"))
    (page,) = links.sources()
    assert page.uri == "source/minfer/types.py.md"
    assert "exclude: true" in page.text
    assert (ROOT / "minfer" / "types.py").read_text(encoding="utf-8").rstrip() in page.text


@settings(deadline=None, max_examples=50)
@given(st.text(alphabet="`~ab\n []()", max_size=60))
def test_a_fence_holds_any_text(text):
    """No text ends its own block; runs of five ticks do not occur in what we show."""
    if "`````" not in text:
        block = fence(text, "text")
        assert re.fullmatch(r"`{5} text\n(.*)\n`{5}", block, re.DOTALL)[1] == text.rstrip()


def test_a_page_that_asks_for_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match="ladder-table"):
        fill("<!-- site ladders -->", ROOT)


@pytest.mark.parametrize("name", ladders.LADDERS)
def test_bars_are_as_long_as_the_stages_are_fast(name):
    """In the order of their speeds, the fastest as wide as there is room; each speed is in the words for those who cannot see it."""
    speeds = ladders.speeds(ladders.load(ROOT, name))
    shown = ladders.bars(ROOT, name)
    widths = [float(width) for width in re.findall(r"width:([\d.]+)%", shown)]
    assert len(widths) == len(speeds)
    assert max(widths) == 100
    pairs = sorted(zip(speeds.values(), widths, strict=True))
    assert [width for _, width in pairs] == sorted(widths)
    label = re.search(r'aria-label="([^"]*)"', shown)[1]
    assert all(f"{stage} {speed:,.0f}" in label for stage, speed in speeds.items())


def test_answers_come_before_what_comes_next():
    text = "## Check yourself\n\n1. How many?\n\nNext: more.\n"
    assert chapters.CHECKS.sub(lambda match: match[0] + "ANSWERS\n\n", text).index("ANSWERS") < text.index("Next") + 10


def book(*cells: dict) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def code(source: str, *outputs: dict) -> dict:
    return {"cell_type": "code", "id": "a", "metadata": {}, "source": source, "outputs": list(outputs), "execution_count": None}


def test_outputs_of_a_notebook_become_markdown(tmp_path, monkeypatch):
    """What was printed as text, pictures as files; stderr is left out, and so is a notebook's empty output."""
    monkeypatch.setenv("DOCS_NOTEBOOKS", "0")
    path = tmp_path / "notebooks" / "a.ipynb"
    path.parent.mkdir()
    printed = {"output_type": "stream", "name": "stdout", "text": "seven\n"}
    warned = {"output_type": "stream", "name": "stderr", "text": "a warning"}
    drawn = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "aGVsbG8=", "text/plain": "<Figure>"}}
    title = {"cell_type": "markdown", "id": "b", "metadata": {}, "source": "# A title"}
    path.write_text(book(title, code("print(7)", printed, warned, drawn)))
    page, pictures = notebooks.page(tmp_path, "a", path)
    assert page.text.startswith("# A title\n")
    assert "seven" in page.text
    assert "a warning" not in page.text
    assert "<Figure>" not in page.text
    assert list(pictures.values()) == [b"hello"]
    (uri,) = pictures
    assert f"({Path(uri).name})" in page.text


@pytest.mark.slow
def test_a_notebook_is_run_once_and_one_that_fails_is_named(tmp_path, monkeypatch):
    pytest.importorskip("nbclient", reason="the extra `course` brings it")
    monkeypatch.delenv("DOCS_NOTEBOOKS", raising=False)
    path = tmp_path / "notebooks" / "a.ipynb"
    path.parent.mkdir()
    path.write_text(book(code("print(6 * 7)")))
    page, _ = notebooks.page(tmp_path, "a", path)
    assert "\n42\n" in page.text
    with monkeypatch.context() as patch:
        patch.setattr(notebooks, "run", lambda *_: pytest.fail("it was run again"))
        assert notebooks.page(tmp_path, "a", path)[0] == page
    path.write_text(book(code("1 / 0")))
    with pytest.raises(RuntimeError, match=r"a\.ipynb does not run"):
        notebooks.page(tmp_path, "a", path)
