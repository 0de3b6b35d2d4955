"""The player: its replay against Python's, the page it is built into, and what it shows in a real browser."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from node_runner import node
from trace_fixtures import RecordedTraffic, large_trace, small_trace

import minfer.trace
from minfer.testing.traffic import cases
from minfer.trace import Trace, show
from minfer.trace.page import MODULES, page, script
from minfer.trace.phases import spans

PLAYER = Path(minfer.trace.__file__).parent / "player"
STATES = """
import { Replay } from "PLAYER/state.mjs";
import { Summary } from "PLAYER/summary.mjs";
import { pageOf } from "PLAYER/pages.mjs";
import { readFileSync } from "fs";
const { trace, order } = JSON.parse(readFileSync(0, "utf8"));
const summary = new Summary(trace);
const replay = new Replay(trace, (state) => summary.add(state));
const states = order.map((k) => {
  const s = replay.at(k);
  const work = s.work.map((t) => [t.seq, t.row, t.start, t.num, t.samples]);
  const pages = Array.from({ length: trace.engine.num_blocks }, (_, i) => pageOf(s, i + 1, trace.engine.block_size).kind);
  return { held: s.held, waiting: s.waiting, running: s.running, tables: [...s.tables], swapped: [...s.swapped], pages,
    computed: [...s.computed], output: [...s.output], cached: [...s.cached], free: s.free, inFlight: s.inFlight, work,
    cachedFree: s.numCachedFree, phases: summary.ids.map((id) => summary.phaseOf(id, k)) };
});
console.log(JSON.stringify(states));
""".replace("PLAYER", PLAYER.as_uri())


def kind_of(frame, block: int) -> str:
    owners = sum(block in table for table in frame.tables.values())
    return "shared" if owners > 1 else "used" if owners else "cached" if block in frame.cached else "free"


@settings(max_examples=12)
@given(cases(None, ahead=True), st.randoms(use_true_random=False))
def test_the_players_states_are_pythons(case, order):
    """At any step, in any order of steps: queues, tables, tokens, pages, phases."""
    traffic = RecordedTraffic(case)
    traffic.play()
    check_states(traffic.recorder.stop(), order)


def test_keyframes_lead_to_the_same_states():
    """A trace of several keyframes, walked back and forth."""
    check_states(large_trace(200, 8), random.Random(1))


def check_states(trace: Trace, order: random.Random) -> None:
    frames = list(trace.frames())
    if not frames:
        return
    steps = [order.randrange(len(frames)) for _ in range(30)]
    phase = {(span.seq, i): span.phase for span in spans(trace) for i in range(span.first, span.last + 1)}
    for k, state in zip(steps, node(STATES, {"trace": trace.content, "order": steps}), strict=True):
        frame = frames[k]
        assert [state[name] for name in ("held", "waiting", "running")] == [frame.held, frame.waiting, frame.running]
        assert dict(map(tuple_of_lists, state["tables"])) == frame.tables
        assert dict(map(tuple_of_lists, state["swapped"])) == frame.swapped
        assert dict(map(tuple, state["computed"])) == frame.computed
        assert dict(map(tuple, state["output"])) == frame.num_output
        assert set(state["cached"]) == frame.cached
        assert (state["free"], state["inFlight"]) == (frame.num_free, frame.in_flight)
        assert [tuple(task) for task in state["work"]] == frame.work
        kinds = [kind_of(frame, block) for block in range(1, trace.engine["num_blocks"] + 1)]
        assert state["pages"] == kinds
        assert state["cachedFree"] == kinds.count("cached")
        assert state["phases"] == [phase.get((seq, k), "none") for seq in trace.sequences]


def tuple_of_lists(pair: list) -> tuple:
    return pair[0], pair[1]


WORDS = """
import { Replay } from "PLAYER/state.mjs";
import { eventsOf, pageWords, sequenceWords, stepWords, taskWords } from "PLAYER/words.mjs";
import { pageOf } from "PLAYER/pages.mjs";
import { readFileSync } from "fs";
const trace = JSON.parse(readFileSync(0, "utf8"));
const replay = new Replay(trace);
const said = trace.steps.map((_, k) => {
  const s = replay.at(k);
  const pages = trace.steps[k].tables ? [...s.tables.values()].map((table) => pageWords(pageOf(s, table[0], 4), 4)) : [];
  const tasks = s.work.map((task) => taskWords(task, trace.sequences[task.seq]));
  return { step: stepWords(s, trace), events: eventsOf(s, trace), things: [...pages, ...tasks, sequenceWords(s, trace.sequences[0])] };
});
console.log(JSON.stringify(said));
""".replace("PLAYER", PLAYER.as_uri())


def test_what_is_said_is_what_happened():
    """Every sentence is whole, and admissions, hits, preemptions and ends are told with their numbers."""
    trace = small_trace()
    said = node(WORDS, trace.content)
    for each, frame in zip(said, trace.frames(), strict=True):
        texts = [each["step"], *(item["text"] for item in each["events"] + each["things"])]
        assert not any(re.search(r"undefined|NaN|null|\[object", text) for text in texts), texts
        told = " ".join(texts)
        if "step" in frame.entry:
            assert f"{trace.engine['num_blocks'] - frame.num_free} of {trace.engine['num_blocks']} pages in use" in each["step"]
            assert f"{sum(task.num_new for task in frame.work)} token" in each["step"]
        for seq, tokens in frame.entry.get("hits", ()):
            assert f"Sequence {seq} found {tokens} token" in told
        assert ("Gave way" in told) == ("preempted" in frame.entry)
    assert all("topic" in item for each in said for item in each["events"] + each["things"])


def test_the_page_asks_nobody_for_anything():
    """No address but those of its links, no import, and a policy that forbids requests."""
    text = page(small_trace(), small_trace("continuous"), chapters="chapters/{}.html")
    without_data = re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.DOTALL)
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|\bimport\b.*from|\bexport\b", without_data)
    assert "default-src 'none'" in text
    assert "chapters/03_paged.html" in text
    assert text.count("</script>") == 2


def test_text_of_prompts_and_tokens_cannot_leave_its_place():
    """A prompt may hold the end of a script; the page's data stay data."""
    nasty = "</script><script>alert(1)</script><!--<script>"
    content = json.loads(json.dumps(small_trace().content))
    content["sequences"][0]["prompt"] = nasty
    content["texts"]["17"] = nasty
    text = page(Trace(content))
    data = re.search(r'<script type="application/json" id="minfer-page">(.*?)</script>', text, re.DOTALL)[1]
    read = json.loads(data)["traces"][0]
    assert (read["sequences"][0]["prompt"], read["texts"]["17"]) == (nasty, nasty)
    assert text.count("<script") == page(small_trace()).count("<script")


def test_the_modules_fit_into_one_script():
    """Put one behind the other, no two of them declare the same name, and none is left out."""
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script(), re.MULTILINE)
    assert len(set(names)) == len(names)
    assert {path.stem for path in PLAYER.glob("*.mjs")} == set(MODULES)
    assert max(len(path.read_text().splitlines()) for path in PLAYER.iterdir()) <= 250


def test_a_large_trace_stays_small(tmp_path):
    """2,000 steps of 256 sequences: what a step costs is a few hundred bytes beyond its tokens."""
    trace = large_trace()
    trace.save(tmp_path / "large.json")
    size = (tmp_path / "large.json").stat().st_size
    assert trace.num_steps == 2000
    assert max(len(frame.running) for frame in trace.frames()) == 256
    sampled = sum(len(each.get("sampled", ())) for each in trace.content["steps"])
    assert size < 4 * sampled + 700 * trace.num_steps
    assert len(page(trace)) < size + 120_000


def test_a_trace_shows_itself_in_a_notebook():
    html = show(small_trace())._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert "</script>" not in html
