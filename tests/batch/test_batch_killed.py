"""A run of `minfer batch` that is killed again and again, by SIGKILL, ends with the output of a run that was not."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from batch_files import many_lines, write
from cli_runner import tiny_model

LINES, KILLS = 2000, 5
LIMIT = 240  # seconds for one run, far more than it takes


def start(source: Path, target: Path, model: str, *options: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "minfer", "batch", str(source), str(target), "--model", model, "--stage", "cpu-torch"]
    limits = ["--max-num-seqs", "32", "--max-model-len", "128", "--num-kv-blocks", "64", "--dtype", "float32", "--device", "cpu"]
    return subprocess.Popen([*command, *limits, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen) -> str:
    """Its stderr, once it has ended well."""
    _, said = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, said
    return said


def kill_at(process: subprocess.Popen, target: Path, size: int, children: list | None = None) -> int:
    """Kill it once the output has so many bytes → how many it has then. `children` gets the processes that it had started."""
    deadline = time.monotonic() + LIMIT
    while process.poll() is None and (target.stat().st_size if target.exists() else 0) < size:
        assert time.monotonic() < deadline, "the output does not grow"
        time.sleep(0.001)
    assert process.poll() is None, process.stderr.read()
    if children is not None:
        children += psutil.Process(process.pid).children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    return target.stat().st_size


@pytest.mark.slow
def test_two_thousand_lines_killed_five_times_are_those_of_an_unbroken_run(tmp_path):
    """The kills come at random sizes of the output, one in each sixth of it."""
    model = tiny_model(tmp_path / "tiny")
    source = write(tmp_path / "in.jsonl", many_lines(LINES))
    finish(start(source, tmp_path / "whole.jsonl", model))
    whole = (tmp_path / "whole.jsonl").read_bytes()
    assert whole.count(b"\n") == LINES
    target, rng = tmp_path / "out.jsonl", random.Random()
    share = len(whole) // (KILLS + 1)
    for kill in range(KILLS):
        size = kill * share + rng.randrange(1, share)
        had = kill_at(start(source, target, model), target, size)
        assert whole.startswith(target.read_bytes())
        assert had < len(whole), f"killed after the end, wanted at {size}"
    assert "were there already" in finish(start(source, target, model))
    assert target.read_bytes() == whole
