"""The export is what the Chrome trace event format asks for, and says what the trace says."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from trace_fixtures import RecordedTraffic, small_trace

from minfer.errors import MinferError
from minfer.testing.traffic import cases
from minfer.trace import Trace, first_difference
from minfer.trace.chrome import chrome_events, export_chrome
from minfer.trace.phases import spans


def check_events(content: dict) -> None:
    """The format's own rules: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)."""
    assert set(content) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    for event in content["traceEvents"]:
        assert event["ph"] in ("X", "C", "M")
        assert all(isinstance(event[key], int) for key in ("pid", "tid"))
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["args"], dict)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name", "thread_sort_index")
            assert set(event["args"]) == {"sort_index" if "index" in event["name"] else "name"}
        else:
            assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())


@settings(max_examples=40)
@given(cases(None, ahead=True))
def test_any_trace_exports(case):
    """The lanes of a sequence's spans do not overlap, and counters never exceed the pool."""
    traffic = RecordedTraffic(case)
    traffic.play()
    trace = traffic.recorder.stop()
    content = json.loads(json.dumps(chrome_events(trace), allow_nan=False))
    check_events(content)
    lanes: dict[tuple, list] = {}
    for event in content["traceEvents"]:
        if event["ph"] == "X" and event["pid"] == 2:
            lanes.setdefault(event["tid"], []).append((event["ts"], event["ts"] + event["dur"]))
        if event["ph"] == "C" and event["name"] == "K/V blocks":
            assert sum(event["args"].values()) == trace.engine["num_blocks"]
    for lane in lanes.values():
        lane.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(lane))


def test_the_verbs_of_a_step_follow_each_other(tmp_path):
    """Schedule, launch, wait, commit; one of each for a step of a plain loop, none inside another."""
    trace = small_trace()
    path = tmp_path / "chrome.json"
    export_chrome(trace, path)
    content = json.loads(path.read_text())
    check_events(content)
    verbs = [event for event in content["traceEvents"] if event["ph"] == "X" and event["pid"] == 1]
    assert [event["name"].split()[0] for event in verbs] == ["schedule", "launch", "wait", "commit"] * trace.num_steps
    assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(verbs))
    assert sum(event["args"]["tokens"] for event in verbs) // 4 == sum(task.num_new for f in trace.frames() for task in f.work)
    with pytest.raises(MinferError, match="cannot be written"):
        export_chrome(trace, tmp_path)


def test_phases_of_a_sequence_that_gave_way():
    """Queued, computing its prompt, decoding, preempted, and again, each span beginning after the one before."""
    trace = small_trace()
    again = {seq for frame in trace.frames() for seq in frame.entry.get("preempted", ())}
    assert again
    for seq in again:
        mine = sorted((span for span in spans(trace) if span.seq == seq), key=lambda span: span.first)
        assert "preempted" in [span.phase for span in mine]
        assert all(a.last < b.first for a, b in pairwise(mine))


def test_the_first_difference_of_two_schedulers():
    """Whole prompts against chunks: the first plan that differs is named, with what each has planned; times do not count."""
    chunked, continuous = small_trace(), small_trace("continuous")
    assert first_difference(chunked, small_trace(block_size=4)) is None
    difference = first_difference(chunked, continuous)
    assert difference.what == "work"
    frames = [[f for f in trace.frames() if "step" in f.entry] for trace in (chunked, continuous)]
    agree = [a.work == b.work and a.tables == b.tables for a, b in zip(*frames, strict=False)]
    assert agree.index(False) == difference.index
    assert f"step {difference.index}" in difference.message
    cut = Trace({**chunked.content, "steps": chunked.content["steps"][:5]})
    assert first_difference(cut, chunked) == (5, "end", "up to step 4 they agree; then only the second trace goes on")
