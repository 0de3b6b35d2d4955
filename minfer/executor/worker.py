"""The process of one rank, started by `processes.py` with one end of a socket.

It carries out the calls that come through the socket, one after the other. A second thread sends a sign of life every second, with
the number of steps launched; it ends the process when the caller's end of the socket closes, however the caller has ended.

From: `processes.py` writes calls. To: it reads results, signs of life, and the one error.
"""

from __future__ import annotations

import os
import select
import threading
import traceback
from multiprocessing.connection import Connection

BEAT = 1.0  # seconds
CLOSED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


class Line:
    """The socket. Both threads write to it."""

    def __init__(self, descriptor: int):
        self.connection = Connection(descriptor)
        self.lock = threading.Lock()
        self.launched = 0

    def send(self, kind: str, *content: object) -> None:
        with self.lock:
            self.connection.send((kind, *content))

    def live(self) -> None:
        """The second thread."""
        watch = select.poll()
        watch.register(self.connection.fileno(), CLOSED)
        try:
            while not watch.poll(1e3 * BEAT):
                self.send("beat", self.launched)
        finally:
            os._exit(0)


def main(descriptor: int, rank: int, size: int) -> None:
    """Until the caller closes its end. After a failed call nothing more is carried out."""
    line = Line(descriptor)
    threading.Thread(target=line.live, daemon=True).start()
    try:
        from minfer.executor.rank import Rank

        this = Rank(rank, size, "127.0.0.1")
        while True:
            number, method, arguments = line.connection.recv()
            result = method(this, *arguments)
            if method is Rank.launch:
                line.launched += 1
            else:
                line.send("result", number, result)
    except (EOFError, ConnectionError):
        os._exit(0)
    except BaseException as error:
        line.send("error", *described(error))
        threading.Event().wait()  # the other thread ends the process


def described(error: BaseException) -> tuple[type | None, str, str]:
    """An error for another process: its class where that is minfer's, what it says, and where it came from."""
    from minfer.errors import MinferError

    if not isinstance(error, MinferError):
        return None, f"{type(error).__name__}: {error}", traceback.format_exc()
    return next(each for each in type(error).__mro__ if each.__module__.startswith("minfer.")), str(error), traceback.format_exc()
