"""A browser for tests: Debian's chromium, or Chrome, driven by Playwright; `make docs-test` gets both. Tests are skipped without."""

from __future__ import annotations

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 740}


@pytest.fixture(scope="session")
def browser():
    """One for all tests of the session."""
    playwright = pytest.importorskip("playwright.sync_api", reason="`make docs-test` installs it")
    with playwright.sync_playwright() as engine:
        try:
            running = engine.chromium.launch(executable_path=next(filter(None, map(shutil.which, NAMES)), None), args=FLAGS)
        except playwright.Error as error:
            pytest.skip(f"no Chromium can be started: {error}")
        yield running
        running.close()


class Watched:
    """A page of the browser, and what went wrong in it or in its frames: errors, and requests to anywhere but `address`."""

    def __init__(self, browser, address: str, **options):
        self.context = browser.new_context(**{"viewport": DESKTOP, "color_scheme": "light", **options})
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(f"console: {message.text}") if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.page.on("request", lambda request: self._request(request.url, address))
        self.page.on("requestfailed", self._failed)

    def _failed(self, request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page was left while a frame was still loading
            self.wrong.append(f"failed: {request.url} ({request.failure})")

    def _request(self, url: str, address: str) -> None:
        if not url.startswith((address, "data:", "blob:", "about:")):
            self.wrong.append(f"request to elsewhere: {url}")

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, kind, *others) -> None:
        self.context.close()
        if kind is None:
            assert not self.wrong, "\n".join(self.wrong)
