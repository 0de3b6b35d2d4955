"""The event loop's end of the pipe to the engine, on both kinds of event loop."""

from __future__ import annotations

import asyncio
import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from minfer import SamplingParams
from minfer.serve.front import Front, Limits
from minfer.serve.messages import EngineInfo, Load, Report, Submit
from minfer.serve.metrics import Metrics
from minfer.serve.run import hang_up

CALLS, TOKENS = 60, 20_000  # megabytes, where a pipe holds a fifth of one


def loops() -> list:
    """asyncio's own, and uvicorn's choice where it is installed."""
    try:
        import uvloop
    except ImportError:
        return [asyncio.new_event_loop]
    return [asyncio.new_event_loop, uvloop.new_event_loop]


@pytest.mark.parametrize("new_loop", loops(), ids=lambda make: make.__module__)
def test_a_full_pipe_is_waited_for(new_loop):
    """An engine that is slow to take requests and quick to answer loses none of either.

    uvloop makes what it watches non-blocking: had the loop watched the pipe, a full one would have looked like a broken one.
    """
    ours, theirs = Pipe()
    info = EngineInfo(path=Path(), name="m", stage="s", why_stage="", vocab_size=9, max_len=TOKENS + 9, max_num_seqs=CALLS)
    front = Front(ours, info, Limits(), None, Metrics("m"))
    got: list[int] = []

    def engine() -> None:
        for _ in range(CALLS):
            command = theirs.recv()
            assert isinstance(command, Submit)
            got.append(command.key)
            theirs.send(Report([], Load()))

    thread = threading.Thread(target=engine, daemon=True)

    async def main() -> None:
        front.start()
        thread.start()
        for _ in range(CALLS):
            front.submit([[1] * TOKENS], SamplingParams(max_tokens=1), stream=False)
        while thread.is_alive():
            await asyncio.sleep(0.01)

    loop = new_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(main(), 60))
    finally:
        loop.close()
        theirs.close()
    assert front.failed is None
    assert got == list(range(CALLS))


def test_hanging_up_is_heard_at_both_ends():
    """By whoever waits at either end, as an end and as nothing else."""
    ours, theirs = Pipe()
    heard: list[BaseException] = []

    def listen(pipe: Connection) -> None:
        try:
            while True:
                pipe.recv()
        except BaseException as error:
            heard.append(error)

    threads = [threading.Thread(target=listen, args=(pipe,), daemon=True) for pipe in (ours, theirs)]
    for each in threads:
        each.start()
    theirs.send(Report([], Load()))
    hang_up(ours)
    for each in threads:
        each.join(60)
    assert [type(error) for error in heard] == [EOFError, EOFError]
    ours.close()
    theirs.close()
