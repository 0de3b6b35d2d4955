"""`minfer serve` as a user starts it: two processes, which come and go together."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import httpx
import psutil
import pytest
from cli_runner import run
from engine_fixtures import checkpoint
from serve_fixtures import PATIENCE, until


def command(*options: str) -> list[str]:
    return [sys.executable, "-m", "minfer", "serve", "--model", str(checkpoint()), "--port", "0", "--device", "cpu", *options]


@contextlib.contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen, str, list[psutil.Process]]]:
    """The server's process, its address, and the processes that it has started."""
    process = subprocess.Popen(command(*options), stderr=subprocess.PIPE, text=True)
    said = ""
    try:
        while "http://" not in said:
            line = process.stderr.readline()
            assert line, f"it ended: {said}"
            said += line
        yield process, re.search(r"http://\S+:\d+", said)[0], psutil.Process(process.pid).children(recursive=True)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE)


def gone(processes: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


def engines_of(process: subprocess.Popen) -> list[psutil.Process]:
    """Its children, without multiprocessing's own helper."""
    return [each for each in psutil.Process(process.pid).children() if "spawn_main" in " ".join(each.cmdline())]


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_told_to_stop(how):
    """A signal ends both processes."""
    with started("--served-model-name", "small", "--api-key", "k") as (process, url, children):
        headers = {"authorization": "Bearer k"}
        body = {"model": "small", "prompt": "hello", "max_tokens": 3}
        assert httpx.post(f"{url}/v1/completions", json=body, headers=headers, timeout=PATIENCE).status_code == 200
        assert httpx.get(f"{url}/v1/models", headers=headers).json()["data"][0]["id"] == "small"
        process.send_signal(how)
        said = process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 0
        assert said == ""
        until(lambda: gone(children), "the engine's process is still there")


@pytest.mark.slow
@pytest.mark.parametrize("whole_group", [False, True])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_while_the_model_is_loaded(how, whole_group):
    """At once, whatever the engine's process is doing: here it does nothing at all. A terminal sends the signal to both processes."""
    process = subprocess.Popen(command(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    until(lambda: engines_of(process), "there is no process for the engine")
    (engine,) = engines_of(process)
    engine.suspend()
    (os.killpg if whole_group else os.kill)(process.pid, how)
    said = process.communicate(timeout=PATIENCE)[1]
    assert "Traceback" not in said
    assert process.returncode != 0
    assert gone([engine])


@pytest.mark.slow
def test_neither_process_outlives_the_other():
    """Whoever is killed, the other one notices: the engine ends without the server, the server says that it has lost the engine."""
    with started() as (process, url, children):
        process.kill()
        until(lambda: gone(children), "the engine's process is still there")
    with started() as (process, url, children):
        engines_of(process)[0].kill()
        until(lambda: httpx.get(f"{url}/health").status_code == 503, "it believes that the engine is still there")
        assert httpx.post(f"{url}/v1/completions", json={"prompt": "hello"}).status_code == 503


def test_what_cannot_be_served_exits_with_1():
    assert "no model is called 'no-such-model'" in run("serve", "--port", "0", "--model", "no-such-model", code=1).stderr
    assert "the API key is empty" in run("serve", "--api-key", "", "--model", str(checkpoint()), code=1).stderr
    assert "choose another --port" in run("serve", "--host", "203.0.113.1", "--model", str(checkpoint()), code=1).stderr


def test_without_the_extra(monkeypatch):
    """One line says which extra brings what is missing."""
    for name in [name for name in sys.modules if name.startswith("minfer.serve.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert 'pip install "minfer[serve]"' in run("serve", code=1).stderr


def test_a_server_records_random_steps_before_it_serves(monkeypatch):
    seen = {}
    monkeypatch.setattr("minfer.serve.run.serve", lambda name, options, limits, **others: seen.update(options))
    run("serve", "--max-num-seqs", "7")
    assert seen["record_random"] is True
    assert seen["max_num_seqs"] == 7
