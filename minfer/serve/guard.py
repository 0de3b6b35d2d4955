"""What stands before the application: the API key, and the limit on a body's size.

From: every HTTP request. To: `app.py`, which gets the body whole and small enough.
"""

from __future__ import annotations

import hmac

from minfer.serve.errors import ApiError
from minfer.serve.replies import json_response

OPEN = ("/", "/health")  # no key is asked for here
OPEN_FOLDER = "/page/"  # nor for the files of the page, which ask for one themselves


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app, api_key: str | None, max_body: int):
        self.app, self.max_body = app, max_body
        self.expected = f"Bearer {api_key}".encode() if api_key is not None else None

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
        if not hmac.compare_digest(given, self.expected):
            what = "the API key is not right" if given else "an API key is needed"
            text = f"{what}; send the header 'Authorization: Bearer KEY' with the key that the server was started with"
            raise ApiError(401, text, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    async def _whole_body(self, scope, receive):
        """Read the body, up to the limit → a `receive` that gives it in one piece, and then what comes after it."""
        length = _header(scope, b"content-length")
        if length.isdigit() and int(length) > self.max_body:
            raise self._too_large()
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return _replay(message, receive)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self.max_body:
                raise self._too_large()
        return _replay({"type": "http.request", "body": b"".join(parts), "more_body": False}, receive)

    def _too_large(self) -> ApiError:
        text = f"the body is larger than the {self.max_body} bytes that this server reads; send less at once"
        return ApiError(413, text, headers={"Connection": "close"})


def _header(scope, name: bytes) -> bytes:
    return next((value for key, value in scope["headers"] if key == name), b"")


def _replay(first: dict, receive):
    waiting = [first]

    async def replayed() -> dict:
        return waiting.pop() if waiting else await receive()

    return replayed
