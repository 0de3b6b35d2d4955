"""Starts a submission's process, talks with it within time limits, and ends it with everything that it has started.

From: `remote.py` makes requests. To: `worker.py`, behind the walls of `jail.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from minfer.course.classroom.frames import Closed, Pipe, Silent, WireError
from minfer.course.classroom.mirrors import Mirrors
from minfer.course.classroom.wire import fill_storage, pack_request, unpack_reply

LARGEST = 64 << 20  # bytes of an answer
START_SECONDS = 90.0
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HF_HUB_OFFLINE": "1",
    "TRITON_CACHE_DIR": "/nowhere", "TOKENIZERS_PARALLELISM": "false",
}  # fmt: skip


class Gone(BaseException):
    """The submission's process is no longer there, or no longer answers. No exception of a part: nothing may take it for one."""


@dataclass(frozen=True)
class Limits:
    """Of one submission."""

    call_seconds: float = 10.0  # for one call of the part
    property_seconds: float = 60.0  # for all cases of a property
    engine_seconds: float = 90.0  # for the whole engine's requests
    starts: int = 3  # of the process, which a property may have lost
    cpu_seconds: int = 600
    memory: int = 6 << 30  # bytes of address space


class Process:
    """One submission's process. Started by the first request, and again after it was lost."""

    def __init__(self, library: Path, part: str, interpreted: bool, limits: Limits, hidden: list[str]):
        self.library, self.part, self.interpreted, self.limits, self.hidden = library, part, interpreted, limits, hidden
        self.walls: list[str] = []
        self.mirrors = Mirrors()
        self.folder: tempfile.TemporaryDirectory | None = None
        self.running: subprocess.Popen | None = None
        self.pipe: Pipe | None = None
        self.waited = START_SECONDS  # the time limit of the last request

    @property
    def file(self) -> Path:
        """The submission's file as its own process sees it."""
        return Path(self.folder.name if self.folder else "") / "home" / "part.py"

    def start(self) -> None:
        """Raises Gone where it does not come up."""
        self.folder = tempfile.TemporaryDirectory(prefix="minfer-grade-", ignore_cleanup_errors=True)
        os.chmod(self.folder.name, 0o755)
        self.file.parent.mkdir()
        self.file.write_text(self.part, encoding="utf-8")
        theirs_in, mine_out = os.pipe()
        mine_in, theirs_out = os.pipe()
        os.set_blocking(mine_out, False)
        home = str(self.file.parent)
        given = {
            "library": str(self.library),
            "home": home,
            "pipes": [theirs_in, theirs_out],
            "visible": [*interpreter_paths(), str(self.library)],
            "hidden": self.hidden,
            "memory": self.limits.memory,
            "seconds": self.limits.cpu_seconds,
            "interpreted": self.interpreted,
            "imports": ["triton"] if self.interpreted else [],
        }
        extra = {"TRITON_INTERPRET": "1"} if self.interpreted else {}
        worker = self.library / "minfer" / "course" / "classroom" / "worker.py"
        self.running = subprocess.Popen(
            [sys.executable, "-I", "-B", "-W", "ignore", str(worker), json.dumps(given)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
            env={**ENVIRONMENT, **extra, "HOME": home, "TMPDIR": home}, pass_fds=(theirs_in, theirs_out),
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self.pipe, self.mirrors = Pipe(mine_in, mine_out, LARGEST), Mirrors()
        try:
            self.walls = unpack_reply(self.pipe.receive(START_SECONDS), self.mirrors)["walls"]
        except (Silent, Closed, WireError) as error:
            raise self.gone(error, "while it was started") from None

    def request(self, do: str, *args: Any, asked: Callable[[str, list], Any] | None = None, seconds: float | None = None) -> dict:
        """One request and its answer.

        Args:
            asked: answers what the part asks of the objects that it was given: (name, arguments) → the answer.
            seconds: the time limit; without it, that of a call.

        Raises:
            Gone: no answer in time, or none that can be read.
            Differs: it says of a sequence what cannot be.
        """
        if self.running is None:
            raise Gone("the process has ended")
        self.waited = seconds or self.limits.call_seconds
        deadline = time.monotonic() + self.waited
        number = secrets.randbits(62)  # so that no answer can be written in advance
        message: dict = {"id": number, "do": do, "args": args}
        try:
            while True:
                parts, storages = pack_request(message, self.mirrors)
                self.pipe.send(parts, deadline - time.monotonic())
                answer = unpack_reply(self.pipe.receive(deadline - time.monotonic()), self.mirrors)
                if not isinstance(answer, dict) or answer.get("id") != number:
                    raise WireError("an answer to something else")
                if "ask" not in answer:
                    if self.mirrors.complaint is not None:
                        raise self.mirrors.complaint
                    for index, data in answer.pop("written").items():
                        fill_storage(storages[index], data)
                    return answer
                message = {"id": number, **asked(answer["ask"], answer["args"])}
        except (Silent, Closed, WireError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise self.gone(error, "in a call of the part") from None

    def gone(self, error: Exception, when: str) -> Gone:
        """End it, and say why."""
        if isinstance(error, Silent):
            text = f"no answer {when} within {self.waited:g} s: an endless loop, or far too slow"
        elif isinstance(error, Closed):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.running.wait(2)
            text = f"the process ended {when} ({ending(self.running.poll())})"
        else:
            text = f"the process sent what is no answer {when}: {error}"
        self.close()
        return Gone(text)

    def close(self) -> None:
        """End the process, its children, and its session; take its folder away."""
        if self.running is not None:
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(self.running.pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):
                        child.kill()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.running.pid, signal.SIGKILL)
            self.running.kill()
            self.running.wait()
            os.close(self.pipe.read)
            os.close(self.pipe.write)
        if self.folder is not None:
            self.folder.cleanup()
        self.running = self.folder = None


def interpreter_paths() -> list[str]:
    """Folders that Python and its packages are read from."""
    paths = [sys.prefix, sys.base_prefix, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))]
    return list(dict.fromkeys([*paths, *(os.path.realpath(path) for path in paths)]))


def ending(code: int | None) -> str:
    """An exit status in words."""
    if code is None:
        return "it closed its pipes"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return name + {"SIGKILL": ", out of memory or time?", "SIGXCPU": ", out of time", "SIGSEGV": ", a crash"}.get(name, "")
