"""What stands before the application: the API key, and the limits on a body's size and on the time it takes to come.

From: every HTTP request. To: `app.py`, which gets the body whole and small enough.
"""

from __future__ import annotations

import asyncio
import hmac

from minfer.serve.errors import ApiError
from minfer.serve.front import Limits
from minfer.serve.replies import json_response

OPEN = ("/", "/health")  # no key is asked for here
OPEN_FOLDER = "/page/"  # nor for the files of the page, which ask for one themselves
CLOSE = {"Connection": "close"}  # the rest of the body is not read


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app, api_key: str | None, limits: Limits):
        self.app, self.limits = app, limits
        self.expected = api_key.encode() if api_key is not None else None
        self._waits: set[asyncio.Timeout] = set()  # for bodies

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._check_key(scope)
            receive = await self._whole_body(scope, receive)
        except ApiError as error:
            await json_response(error.body, error.status, error.headers)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _check_key(self, scope) -> None:
        """Compared in a time that does not depend on how much of the key is right."""
        path = scope["path"]
        if self.expected is None or path in OPEN or path.startswith(OPEN_FOLDER):
            return
        given = _header(scope, b"authorization")
        scheme, _, key = given.partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(key, self.expected):
            what = "the API key is not right" if given else "an API key is needed"
            text = f"{what}; send the header 'Authorization: Bearer KEY' with the key that the server was started with"
            raise ApiError(401, text, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    async def _whole_body(self, scope, receive):
        """Read the body, up to the limits → a `receive` that gives it in one piece, and then what comes after it."""
        length = _header(scope, b"content-length")
        if length.isdigit() and int(length) > self.limits.max_body:
            raise self._too_large()
        try:
            async with asyncio.timeout(self.limits.deadline) as wait:
                self._waits.add(wait)
                first = await self._first(receive)
        except TimeoutError:
            text = f"the body did not come within {self.limits.deadline:g} seconds, or before the server was shut down; send it again"
            raise ApiError(408, text, headers=CLOSE) from None
        finally:
            self._waits.discard(wait)
        return _replay(first, receive)

    async def _first(self, receive) -> dict:
        """The message that holds the whole body; or the one that says that the client has gone."""
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return message
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self.limits.max_body:
                raise self._too_large()
        return {"type": "http.request", "body": b"".join(parts), "more_body": False}

    def hurry(self) -> None:
        """The server shuts down: wait for no body any more."""
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(0)

    def _too_large(self) -> ApiError:
        text = f"the body is larger than the {self.limits.max_body} bytes that this server reads; send less at once"
        return ApiError(413, text, headers=CLOSE)


def _header(scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _replay(first: dict, receive):
    waiting = [first]

    async def replayed() -> dict:
        return waiting.pop() if waiting else await receive()

    return replayed
