"""One client process of `minfer bench serve`: it sends its share of the requests and notes when each piece of an answer came.

From: `bench/serve.py`, which starts several of these processes, since one Python process can only read so many pieces a second.
To: a `Served` for each request, sent back through a pipe.

An answer is a stream of server-sent events, one line `data: {...}` each, `data: [DONE]` at the end. Times are of time.monotonic, which
all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.sharedctypes import Synchronized

    import httpx

SHOWN = 200  # characters of a server's error message


@dataclass(slots=True)
class Served:
    """What became of one request. Times are in seconds on time.monotonic's clock."""

    index: int  # in the workload
    due: float  # when it was sent, or should have been
    token_times: list[float] = field(default_factory=list)  # when each event with a part of the answer came
    tokens: int | None = None  # output tokens, as the server counts them; None: it did not say
    ended: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Share:
    """What one process is to do.

    Args:
        url: of the completions; greeting: one that costs the server nothing.
        headers: of every request.
        bodies: of all requests of the workload.
        due: seconds after the start at which each request is sent; None: as soon as one of the `streams` is free.
        mine: with `due`, the indices of this process' requests.
        streams: without `due`, how many requests this process keeps open.
        timeout: seconds without a sign of the server after which a request is given up.
    """

    url: str
    greeting: str
    headers: dict[str, str]
    bodies: list[bytes]
    due: list[float] | None
    mine: list[int]
    streams: int
    timeout: float


def work(pipe: Connection, share: Share, following: Synchronized) -> None:
    """The process: send back through the pipe (what became of each request, share of the time that was spent computing)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    pipe.send(asyncio.run(run(pipe, share, following)))


async def run(pipe: Connection, share: Share, following: Synchronized) -> tuple[list[Served], float]:
    """Say "ready", take the start on time.monotonic's clock from the pipe, and send all requests of the share.

    Args:
        following: without `due`, the index of the request that comes next; all processes share it.
    """
    served: list[Served] = []
    connections = Connections(share)
    try:
        await connections.open(share.streams)
        pipe.send("ready")
        start, computed = pipe.recv(), time.process_time()
        await asyncio.sleep(max(0.0, start - time.monotonic()))

        async def stream() -> None:
            for index in take(following, len(share.bodies)):
                served.append(await ask(connections, share, index, time.monotonic()))

        async def later(index: int) -> None:
            due = start + share.due[index]
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            served.append(await ask(connections, share, index, due))

        await asyncio.gather(*([stream() for _ in range(share.streams)] if share.due is None else map(later, share.mine)))
        return served, (time.process_time() - computed) / max(time.monotonic() - start, 1e-9)
    finally:
        await connections.close()


class Connections:
    """A client of its own for each connection: one client with many goes through all of them for every request."""

    def __init__(self, share: Share):
        import httpx

        self._share = share
        self._ssl = httpx.create_ssl_context(trust_env=False)  # making one takes longer than a token
        self._idle: list[httpx.AsyncClient] = []

    async def open(self, count: int) -> None:
        """Open so many, since all at once would take longer than the first tokens. What fails here fails again later."""
        clients = [self._new() for _ in range(count)]
        await asyncio.gather(*(client.get(self._share.greeting) for client in clients), return_exceptions=True)
        self._idle += clients

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """One that nobody uses, open if there is such a one."""
        client = self._idle.pop() if self._idle else self._new()
        try:
            yield client
        finally:
            self._idle.append(client)

    async def close(self) -> None:
        await asyncio.gather(*(client.aclose() for client in self._idle))

    def _new(self) -> httpx.AsyncClient:
        import httpx

        return httpx.AsyncClient(timeout=self._share.timeout, headers=self._share.headers, verify=self._ssl, trust_env=False)


def take(following: Synchronized, end: int) -> Iterator[int]:
    """Indices up to `end`, each given out once among all processes."""
    while True:
        with following.get_lock():
            index = following.value
            following.value += 1
        if index >= end:
            return
        yield index


async def ask(connections: Connections, share: Share, index: int, due: float) -> Served:
    """Send one request and read its answer to the end. What goes wrong is in the result's `error`."""
    import httpx

    served = Served(index, due)
    try:
        async with connections.one() as client, client.stream("POST", share.url, content=share.bodies[index]) as response:
            if response.status_code != 200:
                text = (await response.aread()).decode("utf-8", "replace")
                served.error = f"HTTP {response.status_code}: {text[:SHOWN]}"
            else:
                await read(response, served)
    except httpx.HTTPError as error:
        served.error = f"{type(error).__name__}: {error}"
    served.ended = time.monotonic()
    return served


async def read(response: httpx.Response, served: Served) -> None:
    """Note when each event came. A piece of the body may hold several events, or a part of one."""
    rest, done = b"", False
    async for piece in response.aiter_raw():  # to its end, also after [DONE], so that the connection can be used again
        now = time.monotonic()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and not done:
                done = note(line[5:].strip(), now, served)
    if not done:
        served.error = "the stream ended without [DONE]"


def note(data: bytes, now: float, served: Served) -> bool:
    """Enter one event. True: the answer has ended."""
    if data == b"[DONE]":
        return True
    try:
        event = json.loads(data)
        if "error" in event:
            served.error = f"in the stream: {json.dumps(event['error'])[:SHOWN]}"
            return True
        for choice in event["choices"]:
            only_ends = choice.get("finish_reason") is not None and not choice.get("text")  # often an event of its own, without a token
            if not only_ends or not served.token_times:
                served.token_times.append(now)
        if event.get("usage"):
            served.tokens = event["usage"]["completion_tokens"]
    except (ValueError, LookupError, TypeError, AttributeError):
        served.error = f"an event that is not OpenAI's: {data[:SHOWN].decode('utf-8', 'replace')}"
        return True
    return False
