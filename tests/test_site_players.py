"""The players and calculators of the site in a browser: what they show is what the recorded traces and `minfer plan` say."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from browser_fixtures import PHONE, Watched
from site_fixtures import served

from minfer.cli.plan import shown as words_of
from minfer.plan.cards import find_card
from minfer.plan.report import figures, shape_of
from minfer.trace import Trace

pytestmark = [pytest.mark.slow, pytest.mark.site]
ROOT = Path(__file__).resolve().parent.parent
EMBEDDED = {  # page: its players, each with the entry at which it opens
    "chapters/03_paged/index.html": [("contiguous", 3), ("page", 2)],
    "chapters/04_continuous/index.html": [("refilled", 2), ("preemption", 7)],
    "chapters/05_chunked/index.html": [("chunks", 3)],
    "chapters/09_prefix_cache/index.html": [("prefix", 2)],
    "chapters/13_overlapped/index.html": [("overlap", 2)],
}
SCHEME = "getComputedStyle(document.documentElement).getPropertyValue('--scheme').trim()"


def frames(name: str) -> list:
    return list(Trace.load(ROOT / "docs" / "traces" / f"{name}.json").frames())


def check_shown(player, found: list, index: int) -> None:
    """Position, queues and pages of the last view are those of the trace; the player draws with the next frame."""
    player.wait_for_function(f"() => document.getElementById('position').textContent.startsWith('{index + 1} of ')")
    view, frame = player.locator(".view").last, found[min(index, len(found) - 1)]
    queues = [[int(chip) for chip in queue.locator("li").all_inner_texts()] for queue in view.locator(".queue").all()]
    assert queues == [frame.waiting, frame.held, frame.running]
    tables = player.evaluate("() => [...minferPlayer.views.at(-1).state.tables]")
    assert {seq: blocks for seq, blocks in tables} == frame.tables


def player_in(page, number: int = 0):
    """The frame of a page's player, once it runs."""
    place = page.locator("iframe.trace").nth(number)
    place.scroll_into_view_if_needed()
    player = place.element_handle().content_frame()
    player.wait_for_function("() => window.minferPlayer")
    return player


@pytest.mark.parametrize("page_name", EMBEDDED)
def test_a_chapters_players_open_at_their_entry(site, browser, page_name):
    with served(site) as address, Watched(browser, address) as watched:
        watched.page.goto(address + page_name, wait_until="load")
        assert watched.page.locator("iframe.trace").count() == len(EMBEDDED[page_name])
        for number, (name, entry) in enumerate(EMBEDDED[page_name]):
            check_shown(player_in(watched.page, number), frames(name), entry)


def test_the_start_pages_player_plays(site, browser):
    with served(site) as address, Watched(browser, address) as watched:
        watched.page.goto(address + "index.html", wait_until="load")
        assert watched.page.evaluate("scrollY") == 0
        player = player_in(watched.page)
        player.wait_for_function("() => minferPlayer.index >= 2", timeout=20_000)
        player.locator("#play").click()
        check_shown(player, frames("demo"), player.evaluate("minferPlayer.index"))


def test_who_wants_less_motion_has_a_player_that_waits(site, browser):
    with served(site) as address, Watched(browser, address, reduced_motion="reduce") as watched:
        watched.page.goto(address + "index.html", wait_until="load")
        player = player_in(watched.page)
        watched.page.wait_for_timeout(600)
        check_shown(player, frames("demo"), 0)


def test_a_player_is_driven_by_buttons_keys_slider_and_pointer(site, browser):
    found = frames("demo")
    with served(site) as address, Watched(browser, address) as watched:
        page = watched.page
        page.goto(address + "traces/demo.html#4", wait_until="load")
        check_shown(page, found, 4)
        page.click("#forward")
        page.keyboard.press("ArrowRight")
        check_shown(page, found, 6)
        page.locator("#slider").fill("11")
        check_shown(page, found, 11)
        assert "Gave way for want of pages: sequence 4" in page.locator(".events").inner_text()
        page.hover(".pool canvas", position={"x": 10, "y": 10})
        holder = next(seq for seq, blocks in found[11].tables.items() if 1 in blocks)
        assert f"of sequence {holder}" in page.locator("#explanation").inner_text()
        page.keyboard.press("End")
        check_shown(page, found, len(found) - 1)
        page.keyboard.press("Home")
        page.select_option("#speed", "60")
        page.locator("h1").click()
        page.keyboard.press("Space")
        page.wait_for_function(f"() => minferPlayer.index === {len(found) - 1}", timeout=30_000)


def test_a_players_link_leads_to_the_chapter(site, browser):
    """Out of its frame, to the page that explains what is seen."""
    with served(site) as address, Watched(browser, address) as watched:
        watched.page.goto(address + "chapters/09_prefix_cache/index.html", wait_until="load")
        player_in(watched.page).locator(".events a", has_text="Chapter 4").first.click()
        watched.page.wait_for_url(address + "chapters/04_continuous/index.html")


def test_a_player_has_the_colours_that_the_reader_chose(site, browser):
    with served(site) as address, Watched(browser, address) as watched:
        page = watched.page
        page.goto(address + "chapters/05_chunked/index.html", wait_until="load")
        player = player_in(page)
        assert player.evaluate(SCHEME) == "light"
        toggles = page.locator("[data-md-component=palette] label:visible")
        for _ in range(3):
            toggles.first.click()
            dark = page.locator("body[data-md-color-scheme=slate]").count() > 0
            player.wait_for_function(f"() => {SCHEME} === '{'dark' if dark else 'light'}'")
            if dark:
                break
        assert dark


def test_players_and_calculators_work_from_a_disk(site, browser, tmp_path):
    import site_zip

    site_zip.pack(site, tmp_path / "docs.zip")
    zipfile.ZipFile(tmp_path / "docs.zip").extractall(tmp_path)
    with Watched(browser, "file://") as watched:
        page = watched.page
        page.goto((tmp_path / "docs" / "chapters" / "03_paged" / "index.html").as_uri(), wait_until="load")
        check_shown(player_in(page, 1), frames("page"), 2)
        page.goto((tmp_path / "docs" / "traces" / "demo.html").as_uri(), wait_until="load")
        page.keyboard.press("ArrowRight")
        check_shown(page, frames("demo"), 1)
        page.goto((tmp_path / "docs" / "plan.html").as_uri(), wait_until="load")
        assert page.locator("[data-key=kv_bytes_per_token] td").first.inner_text() == "131,072"


def test_calculators_follow_their_fields(site, browser):
    """The figures are those of `minfer plan`; what cannot be is said, and goes when it is mended; own sizes count."""
    with served(site) as address, Watched(browser, address, viewport=PHONE) as watched:
        page = watched.page
        page.goto(address + "plan.html", wait_until="load")
        given = {"dtype": "float32", "context": 512, "batch": 8, "block_size": 16, "share": 0.9, "tp": 1}
        page.select_option("select[name=model]", "smollm2-135m")
        page.select_option("select[name=card]", "t4")
        page.select_option("select[name=dtype]", "float32")
        page.fill("input[name=context]", "512")
        page.fill("input[name=batch]", "8")
        for each in figures(shape_of("smollm2-135m"), find_card("t4"), **given):
            shown = page.locator(f"[data-key={each.key}] td").first.inner_text()
            assert shown.replace(",", "") == words_of(each.value).replace(",", ""), each.key
        assert "8" in page.locator(".plan-plot").get_attribute("aria-label")
        page.fill("input[name=tp]", "2")
        assert "tp=2 does not divide 9 query heads" in page.locator(".plan-trouble").inner_text()
        page.fill("input[name=tp]", "")
        assert "Cards that share the model: nothing cannot be" in page.locator(".plan-trouble").inner_text()
        page.fill("input[name=tp]", "1")
        assert page.locator(".plan-trouble").inner_text() == ""
        page.locator("summary", has_text="sizes").click()
        page.fill("input[name=num_layers]", "60")
        assert page.locator("select[name=model]").input_value() == "own sizes"
        assert page.locator("[data-key=kv_bytes_per_token] td").first.inner_text() == f"{2 * 60 * 3 * 64 * 4:,}"
