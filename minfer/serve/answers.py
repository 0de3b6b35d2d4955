"""Answers: the part of a request's life that lies between its checks and its last byte.

From: `app.py`, with what was asked for. To: the client. An answer submits its call, waits for the engine, sends, and ends the call in
every case: when all is sent, when the client has gone, when the deadline has passed, when the server stops.

Errors before the first byte are responses with their own status. After it they are an event of the stream, {"error": ...}, then [DONE].
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

from starlette.responses import Response

from minfer.params import SamplingParams
from minfer.serve.call import Call
from minfer.serve.chunks import DONE, Chunks, error_event
from minfer.serve.convert import Prompt
from minfer.serve.errors import ApiError
from minfer.serve.front import Front
from minfer.serve.protocol import SamplingRequest
from minfer.serve.responses import response_of

LAST_WORD = 2.0  # seconds in which a client that lags may still take the error that ends its stream


class Asked(NamedTuple):
    """A request that has been understood."""

    request: SamplingRequest
    prompts: list[Prompt]
    params: SamplingParams
    model: str  # as the answer names it


class Answer(Response):
    """Submits what was asked for, and answers as a whole or as a stream."""

    def __init__(self, front: Front, asked: Asked):
        super().__init__()
        self.front, self.asked = front, asked

    async def __call__(self, scope, receive, send) -> None:
        request = self.asked.request
        call = self.front.submit(
            [prompt.ids for prompt in self.asked.prompts],
            self.asked.params,
            stream=bool(request.stream),
            priority=request.priority or 0,
            user=request.user or "",
        )
        gone = asyncio.create_task(_end_when_gone(receive, call))
        try:
            await (self._stream(call, send) if request.stream else self._whole(call, scope, receive, send))
        except RuntimeError:  # uvloop's, of a connection that was closed a moment before uvicorn has heard of it
            if not (await asyncio.wait([gone], timeout=LAST_WORD))[0]:
                raise
        finally:
            gone.cancel()
            call.close()

    async def _whole(self, call: Call, scope, receive, send) -> None:
        try:
            async with asyncio.timeout(self.front.limits.deadline):
                outputs = await call.whole()
        except TimeoutError:
            raise self._too_late() from None
        answer = response_of(self.asked.request, outputs, self.front.tokenizer, self.asked.model)
        await Response(answer.model_dump_json(), media_type="application/json")(scope, receive, send)

    async def _stream(self, call: Call, send) -> None:
        chunks = Chunks(self.asked.request, call, self.asked.prompts, self.front.tokenizer, self.asked.model)
        begun = False
        try:
            async with asyncio.timeout(self.front.limits.deadline):
                while news := await call.news():
                    if not begun:
                        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                        begun = True
                    await send({"type": "http.response.body", "body": chunks.of(news), "more_body": True})
                await send({"type": "http.response.body", "body": chunks.end()})
        except (TimeoutError, ApiError) as error:
            error = error if isinstance(error, ApiError) else self._too_late()
            if not begun:
                raise error from None
            async with asyncio.timeout(LAST_WORD):
                await send({"type": "http.response.body", "body": error_event(error) + DONE})

    def _too_late(self) -> ApiError:
        limit = self.front.limits.deadline
        return ApiError(504, f"not done within {limit:g} seconds, the server's deadline for a request; it was aborted", code="timeout")


HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]


async def _end_when_gone(receive, call: Call) -> None:
    """Waits for the client to hang up, and fails the call then, so that the engine does not go on for nobody."""
    with contextlib.suppress(asyncio.CancelledError):
        while (await receive())["type"] != "http.disconnect":
            pass
        call.fail(ApiError(499, "the client has gone"))
