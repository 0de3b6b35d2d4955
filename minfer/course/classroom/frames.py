"""Frames of bytes on two pipes, with time limits and a largest size.

From: `wire.py` makes the frames' parts. To: the other process.
"""

from __future__ import annotations

import os
import select
import struct
import time

HEADER = struct.Struct(">QQ")  # number of parts, bytes in all
MOST_PARTS = 4096


class WireError(Exception):
    """The other side does not keep to the format."""


class Silent(Exception):
    """The other side has not answered in time."""


class Closed(Exception):
    """The other side has gone."""


class Pipe:
    """Frames in both directions on two file descriptors."""

    def __init__(self, read: int, write: int, largest: int | None = None):
        self.read, self.write, self.largest = read, write, largest

    def send(self, parts: list[bytes], timeout: float | None = None) -> None:
        """Raises Closed, and Silent where the other side does not read in time."""
        sizes = struct.pack(f">{len(parts)}Q", *map(len, parts))
        data = memoryview(b"".join((HEADER.pack(len(parts), sum(map(len, parts))), sizes, *parts)))
        deadline = None if timeout is None else time.monotonic() + timeout
        while data:
            self._wait([], [self.write], deadline)
            try:
                data = data[os.write(self.write, data[:65536]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Closed from None

    def receive(self, timeout: float | None = None) -> list[bytes]:
        """Raises Closed, Silent, and WireError where a frame is too large."""
        deadline = None if timeout is None else time.monotonic() + timeout
        count, total = HEADER.unpack(self._read(HEADER.size, deadline))
        if self.largest is not None and (count > MOST_PARTS or total > self.largest):
            raise WireError("an answer that is too large")
        sizes = struct.unpack(f">{count}Q", self._read(8 * count, deadline))
        if sum(sizes) != total or not sizes:
            raise WireError("an answer whose sizes do not add up")
        return [self._read(size, deadline) for size in sizes]

    def _read(self, count: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait([self.read], [], deadline)
            try:
                piece = os.read(self.read, min(count - len(data), 1 << 20))
            except OSError:
                raise Closed from None
            if not piece:
                raise Closed
            data += piece
        return bytes(data)

    def _wait(self, readers: list[int], writers: list[int], deadline: float | None) -> None:
        if deadline is not None and not any(select.select(readers, writers, [], max(0.0, deadline - time.monotonic()))):
            raise Silent
