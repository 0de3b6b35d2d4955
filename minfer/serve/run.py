"""Starting and stopping: an engine behind a pipe, and uvicorn before it.

From: `minfer serve`, or a test. To: `worker.py`, in a process or a thread, and `app.py`.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import uvicorn

from minfer.errors import MinferError
from minfer.llm import LLM
from minfer.serve.app import create_app
from minfer.serve.front import Front, Limits
from minfer.serve.messages import EngineInfo
from minfer.serve.metrics import Metrics
from minfer.serve.worker import Worker
from minfer.tokenizer import load_tokenizer

log = logging.getLogger(__name__)

END_WITHIN = 10.0  # seconds for the engine's process to end by itself
KEEP_ALIVE = 75  # seconds that an idle connection is kept: longer than clients do, or their next request may meet its end
SIGNALS = {signal.SIGINT, signal.SIGTERM}
AFTERWARDS = 5.0  # seconds for connections to close, beyond Limits.shutdown


def info_of(llm: LLM, name: str) -> EngineInfo:
    config = llm.config
    return EngineInfo(
        config.path, name, llm.stage.name, llm.why_stage, config.model.vocab_size, llm.engine.max_len, config.max_num_seqs
    )


def start_thread(llm: LLM, name: str) -> tuple[Connection, EngineInfo, threading.Thread]:
    """Run an engine that is there already in a thread of this process → the other end of its pipe. It ends with the pipe."""
    ours, theirs = multiprocessing.Pipe()

    def work() -> None:
        try:
            Worker(llm.engine, theirs).run()
        finally:
            with theirs:
                hang_up(theirs)

    thread = threading.Thread(target=work, name="minfer-engine", daemon=True)
    thread.start()
    return ours, info_of(llm, name), thread


def hang_up(pipe: Connection) -> None:
    """Both ends hear of it, also a thread that waits at one of them: to close what it reads from would be an error there."""
    with socket.fromfd(pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM) as line, contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def start_process(name: str, options: Mapping[str, Any], verbose: bool = False) -> tuple[Connection, EngineInfo, Any]:
    """Build LLM(name, **options) in a process of its own → the other end of its pipe, once the model is loaded.

    Raises:
        MinferError: the engine could not be built; the message is its own.
    """
    context = multiprocessing.get_context("spawn")  # a fork would take threads and the device's state along
    ours, theirs = context.Pipe()
    process = context.Process(target=engine_process, args=(theirs, name, dict(options), verbose), name="minfer-engine")
    resource_tracker.ensure_running()  # it lets signals through when it starts, which process.start() would do
    try:
        with signals_held_back():  # also from the new process, until it has decided what to do about them
            process.start()
        theirs.close()
        first = ours.recv()
    except EOFError:
        process.join()
        raise MinferError(f"the engine's process ended with code {process.exitcode} while it was loading {name}") from None
    except BaseException:  # Ctrl-C, for example
        if process.pid is not None:
            process.kill()
            process.join()
        raise
    if isinstance(first, BaseException):
        process.join()
        raise first
    return ours, first, process


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """What comes meanwhile is dealt with at the end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def engine_process(pipe: Connection, name: str, options: Mapping[str, Any], verbose: bool) -> None:
    """The whole life of the engine's process. It ends when it is told to, or when the server has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both processes; the server decides when this one ends
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    from minfer.cli.console import log_from

    log_from(logging.INFO if verbose else logging.WARNING)
    try:
        llm = LLM(name, **options)
    except Exception as error:
        pipe.send(error if isinstance(error, MinferError) else MinferError(f"{type(error).__name__}: {error}"))
        return
    with llm, pipe, contextlib.suppress(BrokenPipeError):  # the server may have gone while the model was loaded
        pipe.send(info_of(llm, name))
        Worker(llm.engine, pipe).run()


def stop_process(process) -> None:
    """It has been told to end; see that it does."""
    process.join(END_WITHIN)
    if process.is_alive():
        log.warning("the engine's process did not end within %g s; it is killed", END_WITHIN)
        process.kill()
        process.join()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one.

    Raises:
        MinferError: the address is taken, or none of this machine's.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:  # the protocol is named, or asyncio would not know that it may turn Nagle's delay of small packets off
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise MinferError(f"cannot listen on {host}, port {port}: {error.strerror or error}; choose another --port or --host") from None
    return sock


class Server(uvicorn.Server):
    """uvicorn, which tells the front when it begins to stop."""

    def __init__(self, front: Front, names: list[str], api_key: str | None = None):
        self.front = front
        limit = front.limits.shutdown + AFTERWARDS
        self.guard = create_app(front, names, api_key)
        others = {"timeout_keep_alive": KEEP_ALIVE, "timeout_graceful_shutdown": int(limit) + 1}
        super().__init__(uvicorn.Config(self.guard, log_level="warning", access_log=False, **others))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.front.drain()
        self.guard.hurry()
        await super().shutdown(sockets)


def make_front(pipe: Connection, info: EngineInfo, limits: Limits, names: list[str]) -> Front:
    return Front(pipe, info, limits, load_tokenizer(info.path), Metrics(names[0]))


def serve(
    name: str,
    options: Mapping[str, Any],
    limits: Limits,
    *,
    host: str,
    port: int,
    names: list[str],
    api_key: str | None = None,
    verbose: bool = False,
    announce=lambda info, port: None,
) -> None:
    """Serve LLM(name, **options) until a signal or Ctrl-C. `announce` is called when requests are taken.

    Raises:
        MinferError: the engine cannot be built, or the address is taken.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is done after Ctrl-C is done after it, too
    with listen(host, port) as sock:
        pipe, info, process = start_process(name, options, verbose)
        with pipe:
            try:
                server = Server(make_front(pipe, info, limits, names), names, api_key)
                announce(info, sock.getsockname()[1])
                with contextlib.suppress(KeyboardInterrupt):
                    server.run(sockets=[sock])
            finally:
                hang_up(pipe)
                stop_process(process)
