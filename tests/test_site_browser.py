"""The documentation site in a real browser: every page in light, in dark and on a phone, the search, the keyboard, a zip on a disk.

Needs Chromium and Playwright, which `make docs-test` gets; skipped where they are not. MINFER_SHOTS=DIR keeps pictures of some pages.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from browser_fixtures import DESKTOP, PHONE, Watched
from site_fixtures import pages, served

pytestmark = [pytest.mark.slow, pytest.mark.site]
TOO_WIDE = """() => {
    const limit = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= limit + 1) return null;
    const all = [...document.querySelectorAll('.md-content *')];
    const wide = all.filter(each => each.getBoundingClientRect().right > limit + 1).slice(0, 3);
    return wide.map(each => `${each.tagName}.${each.className} ${(each.textContent || '').slice(0, 40)}`).join(' | ') || 'the page';
}"""
BROKEN = "() => [...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src)"
SHOTS = (
    "index", "chapters/04_continuous/index", "stages/continuous", "slots/attention", "performance", "reference/cli", "reference/parts",
    "notebooks/tour", "plan", "traces/demo",
)  # fmt: skip


@pytest.mark.parametrize("turn", [0, 1], ids=["even", "odd"])  # pages, for two workers
def test_every_page_is_well_in_light_in_dark_and_on_a_phone(site, browser, turn):
    """No error in the console, no request to elsewhere, no broken picture, nothing wider than the page."""
    faults = []
    with served(site) as address, Watched(browser, address) as watched:
        page = watched.page
        for name in pages(site)[turn::2]:
            if name == "404.html":
                continue
            page.set_viewport_size(DESKTOP)
            page.emulate_media(color_scheme="light")
            page.goto(address + name, wait_until="load")
            for scheme, shown in (("light", "default"), ("dark", "slate")):
                page.emulate_media(color_scheme=scheme)
                if page.locator("body[data-md-color-scheme]").count():
                    page.wait_for_selector(f"body[data-md-color-scheme={shown}]", timeout=5000)
                shoot(page, name, scheme)
            faults += [f"{name}: {url} is broken" for url in page.evaluate(BROKEN)]
            faults += [f"{name}: too wide: {wide}"] if (wide := page.evaluate(TOO_WIDE)) else []
            page.set_viewport_size(PHONE)
            faults += [f"{name}: too wide on a phone: {wide}"] if (wide := page.evaluate(TOO_WIDE)) else []
            shoot(page, name, "phone")
            faults += [f"{name}: {wrong}" for wrong in watched.wrong]
            watched.wrong.clear()
    assert not faults, "\n".join(faults[:40])


def shoot(page, name: str, kind: str) -> None:
    """A picture for people to look at, where one is asked for."""
    folder, stem = os.environ.get("MINFER_SHOTS"), name.removesuffix(".html")
    if folder and stem in SHOTS:
        page.screenshot(path=Path(folder) / f"{stem.replace('/', '-')}-{kind}.png", full_page=True)


def test_search_finds_a_chapter_by_keyboard(site, browser):
    with served(site) as address, Watched(browser, address) as watched:
        find(watched.page, address + "index.html")


def test_search_works_from_a_disk(site, browser, tmp_path):
    """The zip, unpacked: pages open and search finds, without a server."""
    import site_zip

    site_zip.pack(site, tmp_path / "docs.zip")
    zipfile.ZipFile(tmp_path / "docs.zip").extractall(tmp_path)
    with Watched(browser, "file://") as watched:
        find(watched.page, (tmp_path / "docs" / "index.html").as_uri())


def find(page, address: str) -> None:
    """Open the search by its key, type, and follow the first result with Enter."""
    page.goto(address, wait_until="load")
    page.keyboard.press("/")
    page.wait_for_selector("[data-md-toggle=search]:checked", state="attached")
    page.keyboard.type("continuous batching")
    first = page.locator(".md-search-result__link").first
    first.wait_for(state="visible", timeout=20_000)
    assert "ontinuous" in first.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: url.partition("?")[0].partition("#")[0] != address)
    assert "ontinuous" in page.locator("h1").inner_text() or "ontinuous" in page.title() or page.locator("mark").count()


def test_the_first_key_reaches_the_text(site, browser):
    """Tab offers to skip the navigation; every tab of contents can be chosen by keys."""
    with served(site) as address, Watched(browser, address) as watched:
        page = watched.page
        page.goto(address + "install.html", wait_until="load")
        page.keyboard.press("Tab")
        assert "md-skip" in page.evaluate("document.activeElement.className").split()
        choice = page.locator(".tabbed-set > input").first
        choice.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".tabbed-set > input").nth(1).is_checked()


QUESTIONS = {  # what a newcomer wants, the links to follow from the start page, and what must then be on the page
    "run it on a laptop": (["Install"], "make demo"),
    "how continuous batching works": (["continuous batching"], "Continuous batching"),
    "swap in my own kernel": (["attention"], "--swap attention=mine.py:attention"),
    "how fast, and how to check": (["Performance"], "make gpu-bench"),
    "run a class": (["For instructors"], "minfer classroom build"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_newcomer_is_there_within_three_clicks(site, browser, question):
    links, answer = QUESTIONS[question]
    assert len(links) <= 3
    with served(site) as address, Watched(browser, address) as watched:
        page = watched.page
        page.goto(address + "index.html", wait_until="load")
        for link in links:
            page.locator("article").get_by_role("link", name=link, exact=True).first.click()
            page.wait_for_load_state("load")
        assert answer in page.locator("article").inner_text()
