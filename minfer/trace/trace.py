"""A trace: what a recording saw, as the JSON that it is kept in.

From: `recorder.py`, or a file. To: `replay.py`, the player's page, the Chrome export, a notebook.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minfer.errors import MinferError

if TYPE_CHECKING:
    from minfer.trace.replay import Frame

FORMAT = "minfer-trace"
VERSION = 1


@dataclass(frozen=True)
class Trace:
    """`content` has the form that docs/trace.md gives. In a notebook it shows itself as the player."""

    content: dict[str, Any]

    @property
    def engine(self) -> dict[str, Any]:
        """Model, stage, parts and limits."""
        return self.content["engine"]

    @property
    def sequences(self) -> dict[int, dict[str, Any]]:
        """By id."""
        return {each["id"]: each for each in self.content["sequences"]}

    @property
    def num_steps(self) -> int:
        """Steps that were planned."""
        return sum("step" in each for each in self.content["steps"])

    def frames(self) -> Iterator[Frame]:
        """The engine's state after each plan, one after the other; a last one after the end, where something changed."""
        from minfer.trace.replay import frames

        return frames(self)

    def save(self, path: str | Path) -> None:
        """As JSON; gzipped where the name ends in .gz.

        Raises:
            MinferError: the file cannot be written.
        """
        text = json.dumps(self.content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        try:
            path = Path(path).expanduser()
            data = text.encode("utf-8", errors="replace")
            path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        except OSError as error:
            raise MinferError(f"the trace cannot be written to {path} ({error.strerror}); name another place") from error

    @staticmethod
    def load(path: str | Path) -> Trace:
        """Read and check a file.

        Raises:
            MinferError: it cannot be read, is no trace, is of another version, or contradicts itself; the message says where.
        """
        from minfer.trace.check import check

        path = Path(path).expanduser()
        try:
            data = path.read_bytes()
            content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        except OSError as error:
            raise MinferError(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, EOFError) as error:
            raise MinferError(f"{path} is no JSON ({error}); it may be cut short, or be no trace: `minfer trace` makes one") from error
        trace = Trace(content)
        try:
            check(trace)
        except MinferError as error:
            raise MinferError(f"{path}: {error}") from None
        return trace

    def _repr_html_(self) -> str:
        from minfer.trace.page import frame_of, page

        return frame_of(page(self))
