"""Errors in the form in which the OpenAI API gives them.

From: everything in `minfer/serve` that refuses a request. To: a response's JSON body, or an event in a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minfer.errors import MinferError

LONGEST = 2000  # characters of a message: it may quote what was sent
KINDS = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


class ApiError(MinferError):
    """A request that gets an error instead of an answer.

    Args:
        status: the HTTP status.
        message: for people.
        param: the field of the request that is to blame, if one is.
        code: a word for programs.
        headers: of the response.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """{"error": {"message", "type", "param", "code"}}."""
        message = str(self)
        message = message if len(message) <= LONGEST else f"{message[:LONGEST]} ..."
        kind = KINDS.get(self.status, "server_error" if self.status >= 500 else KINDS[400])
        return {"error": {"message": message, "type": kind, "param": self.param, "code": self.code}}


def bad_request(error: MinferError) -> ApiError:
    """What minfer refuses is the request's fault: 400."""
    return error if isinstance(error, ApiError) else ApiError(400, str(error))


def from_validation(errors: Iterable[Mapping[str, Any]]) -> ApiError:
    """What pydantic found wrong: the field that comes first, and all that was said of it.

    A field that may have several types is complained about once for each; they are joined by "or".
    """
    by_field: dict[str, list[str]] = {}
    for error in errors:
        place = [str(part) for part in error["loc"] if part != "body"]
        said = by_field.setdefault(place[0] if place else "", [])
        text = error["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
        if text not in said:
            said.append(text)
    field, said = next(iter(by_field.items()), ("", ["it cannot be read"]))
    return ApiError(400, f"{field or 'the body'}: {' or '.join(said)}", param=field or None)
