"""`minfer batch` over a Ray cluster on this machine: two engines, the same file; killed, it goes on, and leaves no process behind."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest
from batch_files import many_lines, write
from cli_runner import tiny_model
from hypothesis import given, settings
from hypothesis import strategies as st
from test_batch_killed import finish, kill_at, start

from minfer.batch.items import read_items
from minfer.batch.lines import read_lines
from minfer.batch.ray_engines import items_of, spans_of

ENGINES = ["--engines", "2", "--window", "24"]


@given(st.integers(0, 40), st.integers(1, 50), st.integers(1, 9), st.integers(0, 40), st.sampled_from([b"\n", b"\n\n", b"\r\n"]))
@settings(deadline=None, max_examples=30)
def test_spans_hold_the_items_of_the_whole_file(tmp_path_factory, seed, count, size, skip, end):
    """Read again from its offset, a span has the same items, those that repeat an id included, wherever the run begins."""
    source = write(tmp_path_factory.mktemp("spans") / "in", many_lines(count, seed), end)
    items = list(read_items(read_lines(source)))[skip:]
    spans = list(spans_of(items, size))
    assert all(span.count == size for span in spans[:-1])
    assert [item for span in spans for item in items_of(source, span)] == items


def gone(processes: list[psutil.Process], seconds: float = 120) -> bool:
    """Whether they have all ended before so many seconds are over."""
    deadline = time.monotonic() + seconds
    while any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


@pytest.mark.slow
def test_an_engine_that_cannot_be_built_says_why(tmp_path: Path):
    """In one line at the end, though it was built in another process."""
    pytest.importorskip("ray")
    source = write(tmp_path / "in.jsonl", many_lines(3))
    process = start(source, tmp_path / "out.jsonl", str(tmp_path / "none"), "--engines", "1")
    _, said = process.communicate(timeout=240)
    assert process.returncode == 1
    assert "error: an engine of the Ray cluster failed: minfer.errors.ModelError: no model is called" in said.splitlines()[-1]


@pytest.mark.slow
def test_two_engines_write_the_file_of_one_also_after_a_kill(tmp_path: Path):
    """Spans of the 600 lines go to two actors; the records are in the input's order, byte for byte those of one engine."""
    pytest.importorskip("ray")
    model = tiny_model(tmp_path / "tiny")
    source, target = write(tmp_path / "in.jsonl", many_lines(600)), tmp_path / "out.jsonl"
    finish(start(source, tmp_path / "whole.jsonl", model))
    whole = (tmp_path / "whole.jsonl").read_bytes()
    process = start(source, target, model, *ENGINES)
    assert kill_at(process, target, len(whole) // 3, seen := []) < len(whole)
    assert whole.startswith(target.read_bytes())
    assert "were there already" in finish(start(source, target, model, *ENGINES))
    assert target.read_bytes() == whole
    assert gone(seen), "the killed run left processes of Ray's"
