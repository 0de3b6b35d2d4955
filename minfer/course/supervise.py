"""Runs the worker, and outlives it: endless loops, crashes and exits of a student's file become outcomes like any other.

From: `minfer check ch04`. To: events, each as soon as it is known. The worker has a process group of its own, which is killed at the
end with all that it has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import minfer
from minfer.course.chapter import ENGINE, Chapter
from minfer.course.jobs import FAILED, Job, Outcome

SILENCE = 120.0  # seconds without a word, after which the worker is taken to hang
SHOWN = 200  # characters of what a part prints


@dataclass
class Request:
    """What the worker is asked for."""

    chapter: Chapter
    parts: dict[str, str]  # slot → file:name
    jobs: list[Job]
    engine: bool = True
    speed: bool = True
    examples: int | None = None
    seed: int = 0
    silence: float = SILENCE
    printed: list[str] = field(default_factory=list)  # filled while it runs: what the part has written to stdout and stderr

    def to_json(self) -> str:
        jobs = [(job.prop, job.focus) for job in self.jobs if job.prop != ENGINE]
        facts = {"parts": self.parts, "jobs": jobs, "engine": self.engine, "speed": self.speed}
        return json.dumps({"chapter": str(self.chapter.folder), **facts, "examples": self.examples, "seed": self.seed})


def events(request: Request) -> Iterator[dict[str, Any]]:
    """loaded (slot, lines), unusable (slot, text), outcome (an Outcome) and speed (text), in order.

    Where the worker ends or hangs in the middle of a job, that job has failed, and another worker goes on with the rest.
    """
    told: set[str] = set()
    while True:
        current = None
        for event in _one_worker(request):
            if event["event"] == "begin":
                current = event["job"]
            elif event["event"] == "end":
                return
            elif event["event"] == "died":
                break
            elif event["event"] == "outcome":
                yield {**event, "outcome": Outcome(**event["outcome"])}
            elif (mark := event["event"] + event.get("slot", "")) not in told:
                told.add(mark)
                yield event
        else:
            return
        if current is None or current.startswith("load ") or current == "speed":
            what = "while it was loaded" if current and current != "speed" else "while its speed was measured" if current else "at once"
            slot = current.removeprefix("load ") if current else ""
            yield {"event": "unusable", "slot": slot, "text": f"the process {event['how']} {what}"}
            return
        message = f"the process {event['how']} in the middle of it"
        yield {"event": "outcome", "outcome": Outcome(current, FAILED, lines=[f"FAILED       {current}", message], message=message)}
        if current == ENGINE:
            return
        request.jobs = request.jobs[[job.id for job in request.jobs].index(current) + 1 :]
        if not request.jobs and not request.engine:
            return


def _one_worker(request: Request) -> Iterator[dict[str, Any]]:
    """The events of one process; the last one is `end`, or `died` with how."""
    reading, writing = os.pipe()
    command = [sys.executable, "-W", "ignore", "-m", "minfer.course.worker", request.to_json(), str(writing)]
    paths = [str(Path(minfer.__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryFile() as output, open(reading, "rb", buffering=0) as pipe, tempfile.TemporaryDirectory() as folder:
        env["HYPOTHESIS_STORAGE_DIRECTORY"] = folder  # or it leaves one of its own beside the student's files
        options = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        worker = subprocess.Popen(command, pass_fds=[writing], env=env, start_new_session=True, **options)
        os.close(writing)
        try:
            for line in _lines(pipe, request.silence):
                with contextlib.suppress(ValueError):
                    yield json.loads(line)
            how = _how_it_ended(worker)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            output.seek(0)
            request.printed += output.read(1 << 16).decode(errors="replace").splitlines()
    yield {"event": "died", "how": how.format(last=" ".join(request.printed[-1:])[:SHOWN])}


def _lines(pipe: Any, silence: float) -> Iterator[bytes]:
    """Lines of the pipe, until it is closed or nothing has come for so many seconds."""
    rest, deadline = b"", time.monotonic() + silence
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            return
        piece = pipe.read(1 << 16)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        if lines:
            deadline = time.monotonic() + silence
        yield from lines


def _how_it_ended(worker: subprocess.Popen) -> str:
    """In words, for a person."""
    try:
        code = worker.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return "did not answer any more"
    if code < 0:
        return f"was ended by the signal {signal.Signals(-code).name}"
    return f"ended with exit code {code} ({{last}})" if code else "ended by itself (os._exit?)"
