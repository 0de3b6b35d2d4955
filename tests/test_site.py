"""The documentation site, without a browser: it builds strictly, links lead somewhere, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import tomllib
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from site_fixtures import pages

from minfer.course.library import all_chapters
from minfer.parts import SLOTS
from minfer.stages import STAGES
from minfer.trace import Trace

pytestmark = [pytest.mark.slow, pytest.mark.site]
ROOT = Path(__file__).resolve().parent.parent
LOADS = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
MAPS = {"canonical", "prev", "next"}  # links that a browser does not fetch


class Read(HTMLParser):
    """What a page links to, what it loads, and what can be linked to in it."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.without_words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if tag in LOADS and values.get(LOADS[tag]) and values.get("rel") not in MAPS:
            self.loads.append(values[LOADS[tag]])
        if tag == "img" and not (values.get("alt") or "").strip():
            self.without_words.append(values.get("src", "?"))


def entries(player: str) -> set[str]:
    """Where the player of a trace can be opened."""
    count = len(Trace.load(ROOT / "docs" / "traces" / f"{Path(player).stem}.json").content["steps"])
    return {"autoplay", *map(str, range(count))}


@pytest.fixture(scope="module")
def read(site: Path) -> dict[str, Read]:
    return {page: Read((site / page).read_text(encoding="utf-8")) for page in pages(site)}


def test_every_link_leads_somewhere(site, read):
    """Files and anchors within the site; 404.html is written for a server's root."""
    broken = []
    for page, content in read.items():
        for link in [*content.links, *content.loads] if page != "404.html" else []:
            parts = urlsplit(urljoin(f"/{page}", link))
            if urlsplit(link).scheme or urlsplit(link).netloc:
                continue
            target = unquote(parts.path).lstrip("/")
            there = (site / target).is_file()
            anchor = unquote(parts.fragment)
            anchors = entries(target) if target.startswith("traces/") else read[target].ids if target in read else {anchor}
            if not there or (anchor and anchor not in anchors):
                broken.append(f"{page}: {link}")
    assert not broken, "\n".join(broken[:40])


def test_no_page_loads_anything_from_elsewhere(site, read):
    """Neither pages nor style sheets; links that a reader follows are fine."""
    outside = [f"{page}: {load}" for page, content in read.items() for load in content.loads if urlsplit(load).netloc]
    for sheet in site.rglob("*.css"):
        outside += [f"{sheet.name}: {url}" for url in re.findall(r"url\(['\"]?(https?:[^)]+)", sheet.read_text(encoding="utf-8"))]
    assert not outside, "\n".join(outside[:40])


def test_every_picture_has_words(read):
    missing = [f"{page}: {picture}" for page, content in read.items() for picture in content.without_words]
    assert not missing, "\n".join(missing[:40])


def test_everything_that_can_be_swapped_has_a_page(site):
    for stage in STAGES:
        assert (site / "stages" / f"{stage}.html").is_file(), f"write docs/stages/{stage}.md"
    for slot in SLOTS:
        assert (site / "slots" / f"{slot}.html").is_file(), f"write docs/slots/{slot}.py"


def test_every_solution_is_shown_with_its_reason(site):
    """A fold for each task, which opens with the words of docs/solutions.toml."""
    reasons = tomllib.loads((ROOT / "docs" / "solutions.toml").read_text(encoding="utf-8"))
    for chapter in all_chapters(ROOT / "chapters"):
        text = (site / "chapters" / chapter.name / "index.html").read_text(encoding="utf-8")
        for task in chapter.tasks:
            assert f"<summary>{task.id}: " in text, f"{chapter.id} {task.id} has no fold"
            assert reasons.get(chapter.id, {}).get(task.id), f"docs/solutions.toml lacks {chapter.id} {task.id}"


def test_the_zip_is_the_site_and_the_same_each_time(site, tmp_path):
    import site_zip

    for name in ("a", "b"):
        site_zip.pack(site, tmp_path / name / "docs.zip")
    assert (tmp_path / "a" / "docs.zip").read_bytes() == (tmp_path / "b" / "docs.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a" / "docs.zip").namelist()
    assert {"docs/index.html", "docs/search/search_index.js"} <= set(names)
