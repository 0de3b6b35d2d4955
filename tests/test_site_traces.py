"""The recorded traces: the engine still decides what they say, what the chapters say of them is so, and each is shown somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import record_traces
from pages import traces
from pages.links import Links
from pages.page import Page

from minfer.trace import Trace, first_difference
from minfer.trace.replay import sampled

ROOT = Path(__file__).resolve().parent.parent
DEFAULT = pytest.param("demo", marks=[pytest.mark.slow, pytest.mark.smollm2])
TINY = sorted(set(record_traces.RUNS) - {"demo"})


def load(name: str) -> Trace:
    return Trace.load(ROOT / "docs" / "traces" / f"{name}.json")


def frames(name: str) -> list:
    return list(load(name).frames())


def tokens(content: dict) -> list:
    return [step.get("sampled") for step in content["steps"]]


def test_every_run_is_recorded_and_every_recording_has_its_run():
    assert set(traces.find(ROOT)) == set(record_traces.RUNS)


@pytest.mark.parametrize("name", [*TINY, DEFAULT])
def test_the_engine_decides_what_was_recorded(name):
    """Recorded anew: the same steps, queues, pages and hits. Tokens may differ on another processor, their number may not."""
    new, old = record_traces.recorded(name).content, load(name).content
    if name == "demo" and tokens(new) != tokens(old):
        pytest.skip("the model says something else on this processor, so its sequences end elsewhere")
    for each in (new, old):
        each.pop("made")
        each.pop("texts")
        for step in each["steps"]:
            step["sampled"] = [token >= 0 for token in step.get("sampled", ())]
    assert new == old, f"the engine decides otherwise now; record it again: python scripts/record_traces.py {name}"


def test_reservations_are_mostly_empty_and_one_request_waits():
    frame = frames("contiguous")[3]
    assert frame.waiting == [4]
    assert frame.num_free == 0
    assert sum(frame.computed.values()) < 0.25 * 4 * 64


def test_pages_are_those_of_the_chapters_table():
    tables = [frame.tables for frame in frames("page")]
    assert tables[:5] == [
        {0: [1, 2], 1: [3]},
        {0: [1, 2], 1: [3]},
        {0: [1, 2], 1: [3, 4]},
        {0: [1, 2, 5], 1: [3, 4]},
        {1: [3, 4], 2: [1, 2, 5]},
    ]


def test_the_batches_part_in_step_2_and_are_those_of_the_chapters_table():
    static, refilled = load("static"), load("refilled")
    assert first_difference(static, refilled).index == 2
    work = [{task.seq: task.num_new for task in frame.work} for frame in refilled.frames()]
    assert work[:-1] == [{0: 3, 1: 2}, {0: 1, 1: 1}, {0: 1, 2: 4}, {0: 1, 2: 1}, {0: 1, 2: 1}, {0: 1, 3: 2}, {3: 1}, {3: 1}, {3: 1}]
    assert static.num_steps == 10


def test_the_third_gives_way_in_step_7_and_is_back_in_step_10():
    found = frames("preemption")
    assert [frame.index for frame in found if frame.entry.get("preempted")] == [7]
    assert found[7].entry["preempted"] == [2]
    assert next(frame.index for frame in found[8:] if 2 in frame.running) == 10


def test_a_long_prompt_is_whole_in_one_engine_and_in_chunks_in_the_other():
    largest = {name: max(sum(task.num_new for task in frame.work) for frame in frames(name)) for name in ("whole", "chunks")}
    assert largest == {"whole": 42, "chunks": 10}
    assert [task.num_new for frame in frames("chunks")[3:8] for task in frame.work if task.seq == 2] == [8] * 5


def test_two_overtake_the_long_one_and_the_third_does_not():
    """One row: the order in which sequences first compute something. L is sequence 1, and a to d are those after it."""
    orders = {}
    for name in ("arrival", "patience"):
        assert all(len(frame.work) <= 1 for frame in frames(name))
        orders[name] = list(dict.fromkeys(task.seq for frame in frames(name) for task in frame.work))
    assert orders == {"arrival": [0, 1, 2, 3, 4, 5], "patience": [0, 2, 3, 1, 4, 5]}
    assert [frames(name)[4].work[0].seq for name in ("arrival", "patience")] == [1, 2]


def test_the_second_prompt_finds_two_pages():
    found = frames("prefix")
    assert found[2].entry["hits"] == [[1, 8]]
    assert found[2].tables[1][:2] == found[2].tables[0][:2]
    assert next(frame.tables[2] for frame in found if 2 in frame.tables) == [5, 7, 8, 4, 3]


def test_a_row_is_wasted_for_the_sequence_that_has_ended():
    found = frames("overlap")
    assert [frame.in_flight for frame in found[:4]] == [0, 1, 1, 1]
    assert [task.seq for task in found[2].work] == [0, 1]
    assert [seq for seq, _ in sampled(found[2].work, found[2].entry)] == [1]


def test_the_start_page_shows_everything():
    """Chunks, a shared page, one that gives way and finds its pages again, and ends by a stop token."""
    found = frames("demo")
    assert any(len(frame.entry.get("hits", ())) for frame in found)
    assert any(frame.entry.get("preempted") for frame in found)
    assert any(not task.samples for frame in found for task in frame.work)
    assert {each["finish"] for each in load("demo").sequences.values()} == {"stop", "length"}


def test_each_trace_is_shown_by_itself_or_beside_another():
    texts = [path.read_text("utf-8") for path in (*ROOT.glob("chapters/*/README.md"), ROOT / "docs/index.md")]
    shown = {name for text in texts for name in re.findall(r"^\[[^\]]+\]\([\w./]*traces/(\w+)\.json#\w+\)$", text, re.MULTILINE)}
    assert shown | {traces.BESIDE[name] for name in shown & set(traces.BESIDE)} == set(record_traces.RUNS)


def test_a_link_of_its_own_becomes_a_player_and_one_in_a_sentence_stays_a_link():
    link = "(../../docs/traces/page.json#2)"
    text = f"See [a run]{link}.\n\n[Three requests]{link}\n\n```\n[x](traces/page.html)\n```\n"
    page = Page("chapters/03_paged/README.md", "chapters/03_paged/README.md", text)
    made = Links(ROOT, traces.uris(ROOT)).rewrite(page).text
    assert made.count("<iframe") == 1
    assert 'src="../../traces/page.html#2" title="Three requests"' in made
    assert "See [a run](../../traces/page.html#2)." in made
    assert "[x](traces/page.html)" in made
