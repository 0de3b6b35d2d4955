"""The page at /: its files are served, it asks nobody else for anything, and it shows what the engine says of itself."""

from __future__ import annotations

import json
import re
import shutil
import threading
from importlib.resources import files

import pytest
from node_runner import node
from serve_fixtures import PATIENCE, Running, running, until

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


@pytest.fixture(scope="module")
def server():
    with running(options={"swap": {"blocks": "minfer.blocks.prefix:PrefixBlocks"}}) as this:
        yield this
        this.settle()


def state_while_busy(server: Running) -> dict:
    """What the engine says in the middle of a few requests."""
    with server.gate.shut():
        clients = [threading.Thread(target=server.complete, args=([5] * 12,), kwargs={"max_tokens": 30, "n": 2}) for _ in range(7)]
        for each in clients:
            each.start()
        until(lambda: server.front.num_sequences == 14, "not all have been taken")
        answers: list[dict] = []
        look = threading.Thread(target=lambda: answers.append(server.http.get("/engine/state").json()))
        look.start()
        until(lambda: server.front._state_asked is not None, "nobody has asked")
    look.join(PATIENCE)
    for each in clients:
        each.join(PATIENCE)
    return answers[0]


def test_state(server: Running):
    """Each sequence is in one queue; those that run have pages, and the numbers agree with each other."""
    content = state_while_busy(server)
    ids = [*content["held"], *content["waiting"], *content["running"]]
    assert sorted(ids) == sorted(each["id"] for each in content["sequences"])
    assert len(set(ids)) == len(ids)
    used = {block for each in content["sequences"] for block in each["table"]}
    assert len(used) == content["engine"]["num_blocks"] - content["free"]
    assert all(bool(each["table"]) == (each["id"] in content["running"]) for each in content["sequences"])
    assert content["work"]
    assert {work[0] for work in content["work"]} <= set(ids)
    idle = server.http.get("/engine/state").json()
    until(lambda: not server.http.get("/engine/state").json()["sequences"], "the state is never a new one")
    assert idle["engine"] == content["engine"]


def test_files(server: Running):
    """All that the page and its modules name is there; nothing else is, and nothing comes from another host."""
    index = server.http.get("/")
    assert index.headers["content-security-policy"].startswith("default-src 'self'")
    seen, todo = set(), set(re.findall(r'(?:src|href)="(/page/[^"]+)"', index.text))
    while todo:
        path = todo.pop()
        seen.add(path)
        answer = server.http.get(path)
        assert answer.status_code == 200, path
        assert "http://" not in answer.text.replace("http://www.w3.org", ""), path
        assert "https://" not in answer.text, path
        todo |= {f"/page/{name}" for name in re.findall(r'from "\./([^"]+)"', answer.text)} - seen
    assert {"/page/live.mjs", "/page/pool.mjs", "/page/player.css"} <= seen
    for path in ("/page/run.py", "/page/..%2frun.py", "/page/%2e%2e/run.py", "/page/nothing.mjs", "/page/"):
        assert server.http.get(path).status_code == 404


GIVEN = """
let all = "";
for await (const piece of process.stdin) all += piece;
const given = JSON.parse(all);
"""
EVENTS = GIVEN + """
const { eventsIn } = await import(given.module);
const body = new ReadableStream({ start(control) {
  for (const piece of given.pieces) control.enqueue(Uint8Array.from(piece));
  control.close();
} });
const found = [];
for await (const event of eventsIn(body)) found.push(event);
console.log(JSON.stringify(found));
"""


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_events_are_read_however_they_are_cut(size):
    events = [{"text": "héllo 😀"}, {"text": "\n\ndata: x"}, {}]
    stream = "".join(f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in events).encode() + b"data: [DONE]\n\n"
    pieces = [list(stream[i : i + size]) for i in range(0, len(stream), size)]
    module = str(files("minfer.serve").joinpath("page", "events.mjs"))
    assert node(EVENTS, {"module": module, "pieces": pieces}) == events


LIVE = GIVEN + """
const { stateOf, words } = await import(given.module);
const state = stateOf(given.content);
console.log(JSON.stringify({ words: words(given.content), refs: state.refs, work: state.work.length }));
"""


def test_the_state_is_put_into_words(server: Running, tmp_path):
    """The page's account of the state is the engine's."""
    for package, folder in (("minfer.trace", "player"), ("minfer.serve", "page")):
        for each in files(package).joinpath(folder).iterdir():
            (tmp_path / each.name).write_bytes(each.read_bytes())
    content = state_while_busy(server)
    said = node(LIVE, {"module": str(tmp_path / "live.mjs"), "content": content})
    queued = len(content["waiting"]) + len(content["held"])
    assert f"{len(content['running'])} running, {queued} waiting" in said["words"]
    assert f"{content['engine']['num_blocks'] - content['free']} of {content['engine']['num_blocks']} pages" in said["words"]
    assert sum(said["refs"]) == sum(len(each["table"]) for each in content["sequences"])


def test_in_a_browser(server: Running):
    """A chat is answered, the engine's panels are there, and no request leaves the server."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    troubles = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1200, "height": 900})
        tab.on("request", lambda request: troubles.append(request.url) if not request.url.startswith((server.url, "data:")) else None)
        tab.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.goto(server.url)
        tab.fill("#tokens", "8")
        tab.fill("#temperature", "0")
        tab.fill("#copies", "3")
        for mode in ("chat", "completion"):
            tab.select_option("#mode", mode)
            tab.fill("#text", "hello")
            tab.click("#send")
            tab.wait_for_function("() => !document.querySelector('#send').disabled", timeout=PATIENCE * 1000)
        said = tab.locator("#messages li.assistant").all_inner_texts()
        tab.wait_for_function("() => document.querySelectorAll('#live canvas').length === 3", timeout=PATIENCE * 1000)
        assert tab.locator("#messages li.error").count() == 0
        assert said[1].strip() == server.complete("hello", max_tokens=8).json()["choices"][0]["text"].strip()
        assert "8 generated" in tab.locator("#timing").inner_text()
        browser.close()
    assert troubles == []
