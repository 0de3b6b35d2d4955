"""The player in a real browser, driven and asked what it shows. Needs playwright and Debian's chromium, or Chrome; skipped without."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from browser_fixtures import Watched
from trace_fixtures import large_trace, small_trace

from minfer.trace import Trace, first_difference
from minfer.trace.page import page

pytestmark = pytest.mark.site
SLOW_STEP_MS = 400  # far above what a step takes on a busy machine of two cores (50), far below what a person would call stuck


@pytest.fixture
def opened(browser, tmp_path):
    """Open pages; afterwards nothing may have been asked for but the file itself, and no error may have come up."""
    watched = []

    def open_page(text: str, **options):
        path = tmp_path / "player.html"
        path.write_text(text, encoding="utf-8")
        watched.append(Watched(browser, path.as_uri(), **{"viewport": {"width": 1200, "height": 900}, **options}))
        tab = watched[-1].page
        tab.goto(path.as_uri())
        tab.wait_for_function("() => window.minferPlayer")
        return tab

    yield open_page
    for each in watched:
        each.context.close()
    assert [wrong for each in watched for wrong in each.wrong] == []


def shown(tab) -> SimpleNamespace:
    """Step, sentence and queues as the page has them now."""
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    queues = [[int(chip) for chip in queue.locator("li:not(.more)").all_inner_texts()] for queue in tab.locator(".queue").all()]
    return SimpleNamespace(
        position=tab.locator("#position").inner_text(),
        sentence=tab.locator(".status").first.inner_text(),
        queues=dict(zip(("waiting", "held", "running"), queues, strict=False)),
    )


def check_shown(tab, trace, index: int) -> None:
    frame = list(trace.frames())[index]
    now = shown(tab)
    assert now.position == f"{index + 1} of {len(trace.content['steps'])}"
    assert now.queues == {"waiting": frame.waiting, "held": frame.held, "running": frame.running}
    assert f"{trace.engine['num_blocks'] - frame.num_free} of" in now.sentence


def test_buttons_keys_and_slider_show_the_traces_own_states(opened):
    trace = small_trace()
    last = len(trace.content["steps"]) - 1
    tab = opened(page(trace))
    check_shown(tab, trace, 0)
    tab.click("#forward")
    tab.keyboard.press("ArrowRight")
    check_shown(tab, trace, 2)
    tab.keyboard.press("PageDown")
    check_shown(tab, trace, 12)
    tab.keyboard.press("ArrowLeft")
    tab.click("#back")
    check_shown(tab, trace, 10)
    tab.keyboard.press("End")
    check_shown(tab, trace, last)
    tab.keyboard.press("Home")
    check_shown(tab, trace, 0)
    tab.locator("#slider").fill("20")
    check_shown(tab, trace, 20)
    tab.click("#last")
    tab.click("#first")
    check_shown(tab, trace, 0)


def test_it_plays_to_the_end_and_stops(opened):
    """At the pace that was chosen, five steps a second at first; then fast, to the end."""
    trace = small_trace()
    tab = opened(page(trace))
    tab.click("#play")
    tab.wait_for_function("() => minferPlayer.index >= 3", timeout=10_000)
    assert tab.evaluate("minferPlayer.index") < 20
    tab.click("#play")
    tab.select_option("#speed", "60")
    tab.locator("h1").click()
    tab.keyboard.press("Space")
    assert tab.locator("#play").inner_text() == "Pause"
    tab.wait_for_function(f"() => minferPlayer.index === {len(trace.content['steps']) - 1}", timeout=20_000)
    tab.wait_for_function("() => document.getElementById('play').textContent === 'Play'")


def test_a_moved_slider_and_another_speed_while_it_plays(opened):
    """It goes on from where the slider was put, forwards only, and stops where the button says."""
    trace = large_trace(200, 8)
    tab = opened(page(trace))
    tab.click("#play")
    tab.locator("#slider").fill("100")
    tab.select_option("#speed", "30")
    tab.wait_for_function("() => minferPlayer.index > 102", timeout=20_000)
    tab.click("#play")
    stopped = tab.evaluate("minferPlayer.index")
    assert 102 < stopped < 190
    tab.wait_for_timeout(150)
    assert tab.evaluate("minferPlayer.index") == stopped


def test_a_trace_of_nothing(opened):
    """Recorded while nothing ran: the page says so."""
    content = {**small_trace().content, "sequences": [], "steps": []}
    assert "no steps" in opened(page(Trace(content))).locator("#explanation").inner_text()


def test_pointing_and_keys_explain_what_is_seen(opened):
    """A page, a sequence, a lane: a sentence with its number, and a link to the chapter. A click in the timeline goes to its step."""
    trace = small_trace()
    tab = opened(page(trace, chapters="chapters/{}/"))
    tab.locator("#slider").fill("8")
    shown(tab)
    frame = list(trace.frames())[8]
    tab.hover(".pool canvas", position={"x": 10, "y": 10})
    says = tab.locator("#explanation")
    assert says.inner_text().startswith("Page 1 ")
    assert says.locator("a").get_attribute("href").startswith("chapters/")
    tab.hover(".tables canvas", position={"x": 80, "y": 10})
    assert f"Sequence {frame.running[0]} " in says.inner_text()
    tab.focus(".batch canvas")
    tab.keyboard.press("ArrowDown")
    assert f"sequence {frame.work[0].seq} " in says.inner_text()
    tab.keyboard.press("ArrowDown")
    assert f"sequence {frame.work[1].seq} " in says.inner_text()
    box = tab.locator(".timeline canvas").bounding_box()
    tab.click(".timeline canvas", position={"x": box["width"] - 3, "y": 5})
    check_shown(tab, trace, len(trace.content["steps"]) - 1)
    for canvas in tab.locator("canvas").all():
        assert canvas.get_attribute("aria-label")
        assert canvas.get_attribute("tabindex") == "0"


def test_the_pool_is_in_the_sequences_colours(opened):
    """The canvas itself: a free page is as pale as free pages are, and one sequence's full pages are all alike."""
    trace = small_trace()
    tab = opened(page(trace))
    frame = next(frame for frame in trace.frames() if frame.num_free > 1 and any(count >= 8 for count in frame.computed.values()))
    tab.locator("#slider").fill(str(frame.index))
    shown(tab)
    colour = "(block) => { const p = minferPlayer.views[0].panels[0]; const [x, y] = p.place(block); const r = devicePixelRatio;"
    colour += " return [...p.canvas.getContext('2d').getImageData((x + 4) * r, (y + p.side - 5) * r, 1, 1).data].join(); }"
    full = next(table for seq, table in frame.tables.items() if frame.computed[seq] >= 8)
    assert tab.evaluate(colour, full[0]) == tab.evaluate(colour, full[1])
    free = [block for block in range(1, 15) if not any(block in table for table in frame.tables.values())]
    assert tab.evaluate(colour, free[0]) == tab.evaluate(colour, free[1]) != tab.evaluate(colour, full[0])


def test_two_traces_and_their_first_difference(opened):
    one, other = small_trace(), small_trace("continuous")
    tab = opened(page(one, other))
    assert tab.locator(".view").count() == 2
    difference = first_difference(one, other)
    assert difference.message in tab.locator("#difference").inner_text()
    tab.keyboard.press("End")
    tab.click("#difference button")
    assert shown(tab).position.startswith(f"{difference.index + 1} of")
    again = opened(page(one, one))
    assert "agree" in again.locator("#difference").inner_text()


@pytest.mark.parametrize("options", [{"color_scheme": "dark"}, {"viewport": {"width": 360, "height": 740}}])
def test_dark_and_small_screens(opened, options):
    """Nothing is wider than the screen; the scheme is the reader's, until the button says otherwise."""
    tab = opened(page(small_trace(), small_trace("continuous")), **options)
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    scheme = "getComputedStyle(document.documentElement).getPropertyValue('--scheme').trim()"
    assert tab.evaluate(scheme) == options.get("color_scheme", "light")
    tab.click("#theme")
    assert tab.evaluate(scheme) != options.get("color_scheme", "light")


def test_a_large_trace_does_not_stutter(opened):
    """2,000 steps of 256 sequences: the median step, forward, back and anywhere, is drawn in a fraction of a second."""
    tab = opened(page(large_trace()))
    times = tab.evaluate("""() => {
      const time = (k) => { const begun = performance.now(); minferPlayer.show(k); return performance.now() - begun; };
      const steps = [...Array(20).keys()];
      const orders = [steps.map((i) => 500 + i), steps.map((i) => 1500 - i), steps.map((i) => (i * 733) % 2000)];
      return orders.map((order) => order.map(time).sort((a, b) => a - b)[10]);
    }""")
    assert max(times) < SLOW_STEP_MS, f"median milliseconds of a step forward, back, anywhere: {times}"
