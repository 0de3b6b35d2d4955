"""A server that speaks as much of OpenAI's completions as a load needs, without a model: tokens come at times that are known.

`python tests/fake_openai.py PORT INTERVAL_MS` serves until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

NAME = "fake"


@dataclass
class Fake:
    """How it behaves, and what it saw.

    Args:
        ttft, interval: seconds to the first token, and from one to the next.
        fault: of every request whose prompt begins with `bad`: "refuse", "cut", "error", "nonsense", "silent", "empty" or "early".
        usage: whether it counts tokens; pieces: how many bytes of an event are sent at once, 0: whole events.
    """

    ttft: float = 0.0
    interval: float = 0.0
    fault: str | None = None
    bad: int = 1
    usage: bool = True
    pieces: int = 0
    models: bytes = json.dumps({"object": "list", "data": [{"id": NAME, "max_model_len": 4096}]}).encode()
    port: int = 0
    open: int = 0
    most_open: int = 0
    connections: int = 0
    bodies: list[dict] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
                await self.answer(head, await reader.readexactly(length), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.headers.append(head)
        if head.startswith(b"GET /v1/models "):
            return writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(self.models), self.models))
        asked = json.loads(body)
        self.bodies.append(asked)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self.stream(asked, self.fault if asked["prompt"][0] == self.bad else None, writer)
        finally:
            self.open -= 1

    async def stream(self, asked: dict, fault: str | None, writer: asyncio.StreamWriter) -> None:
        if fault == "refuse":
            return writer.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy")
        if fault == "silent":
            return await asyncio.sleep(60)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await asyncio.sleep(self.ttft)
        due = asyncio.get_running_loop().time()
        for i in range(0 if fault == "empty" else asked["max_tokens"]):
            if i == 2 and fault == "cut":
                return writer.close()
            if i == 2 and fault in ("error", "nonsense"):
                self.send(writer, b'{"error": {"message": "out of order"}}' if fault == "error" else b"<html>")
                break
            due += self.interval if i else 0
            await asyncio.sleep(max(0, due - asyncio.get_running_loop().time()))
            self.send(writer, b'{"id": "x", "choices": [{"index": 0, "text": " word", "logprobs": null, "finish_reason": null}]}')
        if fault != "empty":
            self.send(writer, b'{"id": "x", "choices": [{"index": 0, "text": "", "finish_reason": "length"}]}')
        if self.usage:
            self.send(writer, b'{"id": "x", "choices": [], "usage": {"completion_tokens": %d}}' % asked["max_tokens"])
        if fault != "early":
            self.send(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")

    def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        event = b"data: %s\n\n" % data
        size = self.pieces or len(event)
        for piece in [event[at : at + size] for at in range(0, len(event), size)]:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    async def serve(self, ready: threading.Event | None = None) -> None:
        server = await asyncio.start_server(self.connection, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        if ready:
            ready.set()
        await server.serve_forever()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(fake: Fake):
    """The server in a thread."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    task = loop.create_task(fake.serve(ready))

    def run() -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(task)
        except asyncio.CancelledError:
            others = asyncio.all_tasks(loop)
            for each in others:
                each.cancel()
            loop.run_until_complete(asyncio.gather(*others, return_exceptions=True))
        finally:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        if not ready.wait(30):
            raise RuntimeError("the fake server did not start")
        yield fake
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join(30)


if __name__ == "__main__":
    asyncio.run(Fake(port=int(sys.argv[1]), interval=float(sys.argv[2]) / 1e3).serve())
