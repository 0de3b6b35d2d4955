"""The documentation site in a real browser: every page in light, in dark and on a phone, the search, the keyboard, a zip on a disk.

Needs Chromium and Playwright, which `make docs-test` gets; skipped where they are not. MINFER_SHOTS=DIR keeps pictures of some pages.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from site_fixtures import pages, served, site  # noqa: F401

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.sync_api", reason="`make docs-test` installs it")

CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 740}
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
    "notebooks/tour",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        try:
            running = engine.chromium.launch(executable_path=CHROMIUM, args=flags)
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started: {error}")
        yield running
        running.close()


class Watched:
    """A page of the browser, and what went wrong in it."""

    def __init__(self, browser, address: str):
        self.context = browser.new_context(viewport=DESKTOP, color_scheme="light")
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"console: {message.text}") if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", lambda request: self._request(request.url, address))
        self.page.on("requestfailed", lambda request: self.wrong.append(f"failed: {request.url}"))

    def _request(self, url: str, address: str) -> None:
        if not url.startswith((address, "data:", "blob:")):
            self.wrong.append(f"request to elsewhere: {url}")


def test_every_page_is_well_in_light_in_dark_and_on_a_phone(site, browser):  # noqa: F811
    """No error in the console, no request to elsewhere, no broken picture, nothing wider than the page."""
    faults = []
    with served(site) as address:
        watched = Watched(browser, address)
        page = watched.page
        for name in pages(site):
            if name == "404.html":
                continue
            watched.wrong.clear()
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
        watched.context.close()
    assert not faults, "\n".join(faults[:40])


def shoot(page, name: str, kind: str) -> None:
    """A picture for people to look at, where one is asked for."""
    folder, stem = os.environ.get("MINFER_SHOTS"), name.removesuffix(".html")
    if folder and stem in SHOTS:
        page.screenshot(path=Path(folder) / f"{stem.replace('/', '-')}-{kind}.png", full_page=True)


def test_search_finds_a_chapter_by_keyboard(site, browser):  # noqa: F811
    with served(site) as address:
        watched = Watched(browser, address)
        find(watched.page, address + "index.html")
        assert not watched.wrong
        watched.context.close()


def test_search_works_from_a_disk(site, browser, tmp_path):  # noqa: F811
    """The zip, unpacked: pages open and search finds, without a server."""
    import site_zip

    site_zip.pack(site, tmp_path / "docs.zip")
    zipfile.ZipFile(tmp_path / "docs.zip").extractall(tmp_path)
    watched = Watched(browser, "file://")
    find(watched.page, (tmp_path / "docs" / "index.html").as_uri())
    assert not watched.wrong
    watched.context.close()


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


def test_the_first_key_reaches_the_text(site, browser):  # noqa: F811
    """Tab offers to skip the navigation; every tab of contents can be chosen by keys."""
    with served(site) as address:
        watched = Watched(browser, address)
        page = watched.page
        page.goto(address + "install.html", wait_until="load")
        page.keyboard.press("Tab")
        assert "md-skip" in page.evaluate("document.activeElement.className").split()
        choice = page.locator(".tabbed-set > input").first
        choice.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".tabbed-set > input").nth(1).is_checked()
        watched.context.close()


QUESTIONS = {  # what a newcomer wants, the links to follow from the start page, and what must then be on the page
    "run it on a laptop": (["Install"], "make demo"),
    "how continuous batching works": (["continuous batching"], "Continuous batching"),
    "swap in my own kernel": (["attention"], "--swap attention=mine.py:attention"),
    "how fast, and how to check": (["Performance"], "make gpu-bench"),
    "run a class": (["For instructors"], "minfer classroom build"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_newcomer_is_there_within_three_clicks(site, browser, question):  # noqa: F811
    links, answer = QUESTIONS[question]
    assert len(links) <= 3
    with served(site) as address:
        watched = Watched(browser, address)
        page = watched.page
        page.goto(address + "index.html", wait_until="load")
        for link in links:
            page.locator("article").get_by_role("link", name=link, exact=True).first.click()
            page.wait_for_load_state("load")
        assert answer in page.locator("article").inner_text()
        watched.context.close()
