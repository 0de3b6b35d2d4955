"""Errors in the form in which the OpenAI API gives them.

From: everything in `minfer/serve` that refuses a request. To: a response's JSON body, or an event in a stream.
"""

from __future__ import annotations

import re
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
    """What pydantic found wrong: the first field with a fault, the place farthest inside it, and all that was said of that.

    A field that may have several types is complained about once for each; they are joined by "or".
    """
    by_place: dict[tuple[str | int, ...], list[str]] = {}
    for error in errors:
        said = by_place.setdefault(_place(error["loc"]), [])
        text = error["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
        text = re.sub(r"a valid dictionary or (instance of \w+|object to extract fields from)", "a JSON object", text)
        if error["type"] == "json_invalid":
            text = f"it is no JSON, from character {error['loc'][-1]} on"
        if text not in said:
            said.append(text)
    field = next(iter(by_place), ())[:1]
    place = max((place for place in by_place if place[:1] == field), key=len, default=())
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")
    said = by_place.get(place, ["it cannot be read"])
    return ApiError(400, f"{where or 'the body'}: {' or '.join(said)}", param=field[0] if field else None)


def _place(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where in the body; pydantic names the type that it tried as well. Broken JSON has only a position, which is no place."""
    place = tuple(part for part in loc if isinstance(part, int) or not (part in ("body", "str") or part.startswith("list[")))
    return place if place and isinstance(place[0], str) else ()
