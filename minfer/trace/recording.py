"""One line to record, and one to look at it.

From: an `LLM` or an `Engine`. To: a `Trace`, which in a notebook shows itself as the player.
"""

from __future__ import annotations

import atexit
import os
from pathlib import Path
from typing import TYPE_CHECKING

from minfer.errors import MinferError
from minfer.trace.recorder import Recorder
from minfer.trace.trace import Trace

if TYPE_CHECKING:
    from minfer.engine import Engine
    from minfer.llm import LLM

_recordings: dict[Engine, Recording] = {}  # those that go on


class Recording:
    """A recording that goes on until `stop`; until then its engine stays alive. Ends by itself with a `with`, or with the process.

    Args:
        engine: what to record. Requests that are running already are taken from where they are.
        path: where `stop` writes the trace; None: nowhere.

    Raises:
        MinferError: the engine is closed, or recorded already, or one of its parts cannot be recorded.
    """

    def __init__(self, engine: Engine, path: str | Path | None = None):
        if engine.executor is None:
            raise MinferError("this engine is closed, so it does nothing that could be recorded; make a new one")
        self._path = path
        self._recorder = Recorder(engine).start()
        self._ended: Trace | None = None
        _recordings[engine] = self
        atexit.register(self.stop)

    @property
    def trace(self) -> Trace:
        """What there is so far."""
        return self._ended or self._recorder.trace()

    def stop(self) -> Trace:
        """Listen no more, and write the file if there is to be one. Stopping twice is fine."""
        if self._ended is None:
            atexit.unregister(self.stop)
            _recordings.pop(self._recorder.engine, None)
            self._ended = self._recorder.stop()
            if self._path is not None:
                self._ended.save(self._path)
        return self._ended

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *exception) -> None:
        self.stop()


def record(llm: LLM | Engine, path: str | Path | None = None) -> Recording:
    """Begin to record, `with record(llm) as recording: ...`; see `Recording`.

    Raises:
        MinferError: as Recording does; or no file can be written at `path`.
    """
    if path is not None:
        check_place(path)
    return Recording(getattr(llm, "engine", llm), path)


def show(what: LLM | Engine | Recording | Trace) -> Trace:
    """The player, as the last line of a notebook's cell: what an engine's recording has so far, or a finished trace.

    Raises:
        MinferError: that engine is not being recorded.
    """
    if isinstance(what, Trace):
        return what
    recording = what if isinstance(what, Recording) else _recordings.get(getattr(what, "engine", what))
    if recording is None:
        raise MinferError("this engine is not being recorded; make it with LLM(..., trace=True), or use `with record(llm)`")
    return recording.trace


def check_place(path: str | Path) -> None:
    """Whether a file can be written there, before an hour's run that it is to hold.

    Raises:
        MinferError: its folder does not exist, it is a folder itself, or it is no path at all.
    """
    if not isinstance(path, str | os.PathLike):
        raise MinferError(f"trace={path!r} must be the path of a file to write, or True to keep the trace in memory only")
    path = Path(path).expanduser()
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"would lie in {path.parent}, which does not exist"
        raise MinferError(f"the trace cannot be written: {path} {what}; name a file in a folder that exists")
