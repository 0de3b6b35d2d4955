"""Tensor parallelism on one machine: a process for each rank, started by us, on a GPU of its own or on the CPU.

Two threads stand between the caller and the ranks, so that a Ctrl-C never cuts a message in two: one writes what `call` has pickled,
one reads. A rank counts as lost when its end of the socket closes; when it gives no sign of life; or when another rank is a step
ahead of it for as long. Time is counted in ticks of this process, so a machine that was suspended has lost nothing.

From: `parallel.py`'s calls. To: `worker.py`, and back.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from minfer.errors import MinferError
from minfer.executor.group import PeerLost
from minfer.executor.parallel import ParallelExecutor
from minfer.shard import Shard

TICK = 0.5  # seconds
SILENT = 12  # ticks without a sign of life, which should come every other one
GRACE = 2.0  # seconds in which the reason may follow, once a rank says that it lost another
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
GONE = "the engine is gone with it: its requests have ended; make a new one"


class ProcessesExecutor(ParallelExecutor):
    """A process for each rank on this machine."""

    shard = Shard

    def __init__(self, config, stage, block_size: int):
        devices = devices_of(config)
        super().__init__(config, stage, block_size, ProcessTeam(len(devices)), devices)


def devices_of(config) -> list[torch.device]:
    """A device for each rank: GPUs in a row, from the one that is named on; or the CPU for all.

    Raises:
        MinferError: there are fewer GPUs.
    """
    size = config.tensor_parallel_size
    if config.device.type == "cpu":
        return [config.device] * size
    first, there = config.device.index or 0, torch.cuda.device_count()
    if first + size > there:
        raise MinferError(
            f"tensor_parallel_size={size} needs {size} GPUs from cuda:{first} on, and PyTorch sees {there} in all; "
            "lower it, or see what CUDA_VISIBLE_DEVICES hides"
        )
    return [torch.device("cuda", first + rank) for rank in range(size)]


class ProcessTeam:
    """The processes, and the two threads."""

    def __init__(self, size: int):
        self.numbers = 0
        self.failure: MinferError | None = None
        self.closed = False
        self.outbox: queue.SimpleQueue = queue.SimpleQueue()  # (ranks, bytes); None: the end
        self.inboxes: list[queue.SimpleQueue] = [queue.SimpleQueue() for _ in range(size)]  # (number, result); None: look up
        self.heard, self.launched = [False] * size, [0] * size  # as the reading thread last saw them
        self.seen, self.silent = [-1] * size, [0] * size  # as of the last tick: steps launched; ticks in which nothing came
        self.processes: list[subprocess.Popen] = []
        self.connections: list[Connection] = []
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._read)]
        try:
            for rank in range(size):
                self._start(rank, size)
        except BaseException:
            self.close()
            raise
        for thread in self.threads:
            thread.start()

    def _start(self, rank: int, size: int) -> None:
        ours, theirs = socket.socketpair()
        self.connections.append(Connection(ours.detach()))
        path = [str(each) for each in sys.path]
        program = (
            f"import sys; sys.path[:] = {path!r}; from minfer.executor.worker import main; main({theirs.fileno()}, {rank}, {size})"
        )
        with theirs:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", program],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=2,  # stdout is the caller's
                    start_new_session=True,  # a Ctrl-C is for the caller
                    env={"GLOO_SOCKET_IFNAME": LOOPBACK, **os.environ},
                )
            )

    def call(self, ranks: Iterable[int], method: Callable, *arguments: Any) -> int:
        self._check()
        self.numbers += 1
        self.outbox.put((list(ranks), pickle.dumps((self.numbers, method, arguments), pickle.HIGHEST_PROTOCOL)))
        return self.numbers

    def result(self, rank: int, number: int) -> Any:
        while True:
            self._check()
            try:
                item = self.inboxes[rank].get(timeout=TICK)
            except queue.Empty:
                self._tick()
                continue
            if item is not None and item[0] == number:
                return item[1]

    def close(self) -> None:
        self.closed = True
        self.outbox.put(None)
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        for thread in self.threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()
        for connection in self.connections:
            connection.close()

    def _check(self) -> None:
        """Raise what has failed, once the ranks are gone."""
        if self.failure is None:
            if self.closed:
                raise MinferError("this engine is closed; make a new one")
            return
        deadline = time.monotonic() + GRACE
        while isinstance(self.failure, PeerLost) and not self.closed and time.monotonic() < deadline:
            time.sleep(TICK / 10)
        self.close()
        raise type(self.failure)(str(self.failure))

    def _fail(self, failure: MinferError) -> None:
        """Keep it if it is the first, or says more than that some other rank was lost."""
        if self.failure is None or (isinstance(self.failure, PeerLost) and not isinstance(failure, PeerLost)):
            self.failure = failure
        for inbox in self.inboxes:
            inbox.put(None)

    def _tick(self) -> None:
        """Half a second has passed in which the caller waited in vain."""
        most = max(self.launched)
        for rank, launched in enumerate(self.launched):
            stands = launched == self.seen[rank] and launched < most
            self.silent[rank] = self.silent[rank] + 1 if stands or not self.heard[rank] else 0
            self.heard[rank], self.seen[rank] = False, launched
            if self.silent[rank] >= SILENT:
                what = f"is {most - launched} steps behind the others" if stands else "has given no sign of life"
                self._fail(MinferError(f"{self._name(rank)} {what} for {SILENT * TICK:.0f} s: it hangs, and {GONE}"))

    def _name(self, rank: int) -> str:
        return f"rank {rank} of {len(self.processes)} (process {self.processes[rank].pid})"

    # The two threads

    def _write(self) -> None:
        while (message := self.outbox.get()) is not None:
            ranks, content = message
            for rank in ranks:
                with contextlib.suppress(OSError):  # its end is closed: the reading thread says why
                    self.connections[rank].send_bytes(content)

    def _read(self) -> None:
        open_ones = {connection: rank for rank, connection in enumerate(self.connections)}
        while open_ones:
            for connection in wait(list(open_ones)):
                rank = open_ones[connection]
                try:
                    self._take(rank, *connection.recv())
                except (EOFError, OSError):
                    del open_ones[connection]
                    self._ended(rank)

    def _take(self, rank: int, kind: str, *content: Any) -> None:
        self.heard[rank] = True
        if kind == "beat":
            (self.launched[rank],) = content
        elif kind == "result":
            self.inboxes[rank].put(content)
        else:
            ours, message, trace = content
            if ours is not None and ours is not PeerLost:
                self._fail(ours(message))
            elif ours is not None:
                self._fail(PeerLost(f"{message}; {GONE}"))
            else:
                self._fail(MinferError(f"{self._name(rank)} failed: {message}; {GONE}\n{trace}"))

    def _ended(self, rank: int) -> None:
        if not self.closed:
            code = self.processes[rank].wait()
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            why = "; if the system was out of memory, lower memory_share or the model's size" if code == -signal.SIGKILL else ""
            self._fail(MinferError(f"{self._name(rank)} {how}, and {GONE}{why}"))
