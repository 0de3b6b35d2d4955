"""What a line asks for.

From: `lines.py`. To: `jobs.py`, which runs it; `output.py`, which compares it with records that are there already.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from minfer.batch.lines import LONGEST, Line

URLS = ("/v1/completions", "/v1/chat/completions")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a line cannot be run: a word for programs, and a message for people."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Item:
    """A line as it was understood: `url` and `body` say what to run, or `fault` why nothing is run."""

    number: int  # of the line
    start: int  # its offset in the input, in bytes
    end: int  # offset of the next line
    custom_id: str | None
    url: str = ""
    body: dict[str, Any] | None = None
    fault: Fault | None = None
    repeats: int | None = None  # the line that had the same custom_id before


def read_items(lines: Iterable[Line]) -> Iterator[Item]:
    """Understand line after line. The second line with a custom_id is not run: by its id, the answers could not be told apart.

    What is kept of an id are sixteen bytes, about a hundred with Python's own: some 100 MB for a million lines.
    """
    seen: dict[bytes, int] = {}
    for line in lines:
        item = understand(line)
        if item.custom_id is not None:
            key = hashlib.blake2b(item.custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            first = seen.setdefault(key, line.number)
            if first != line.number:
                item = repeated(item, first)
        yield item


def repeated(item: Item, first: int) -> Item:
    """A line whose custom_id is an earlier line's."""
    message = f"line {item.number} has the custom_id of line {first}; give each line one of its own"
    return replace(item, url="", body=None, fault=Fault("duplicate_custom_id", message), repeats=first)


def understand(line: Line) -> Item:
    """One line by itself. Its `body` is looked at later, by whoever runs it."""
    if len(line.content) > LONGEST:
        return bad(line, "line_too_long", f"has more than the {LONGEST} bytes that a line may have")
    try:
        asked = json.loads(line.content.decode("utf-8"), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        return bad(line, "invalid_json", f"is not JSON in UTF-8: {error}")
    if not isinstance(asked, dict):
        return bad(line, "invalid_line", f"is JSON, but no object with custom_id, method, url and body: {type(asked).__name__}")
    custom_id = asked.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        return bad(line, "invalid_custom_id", f"needs a custom_id, a string that is not empty; it has {shown(custom_id)}")
    if asked.get("method") != "POST":
        return bad(line, "invalid_method", f"has the method {shown(asked.get('method'))}; it must be 'POST'", custom_id)
    if asked.get("url") not in URLS:
        return bad(line, "invalid_url", f"has the url {shown(asked.get('url'))}; it must be {' or '.join(URLS)}", custom_id)
    if not isinstance(asked.get("body"), dict):
        return bad(line, "invalid_body", f"needs a body, an object; it has {shown(asked.get('body'))}", custom_id)
    return Item(line.number, line.start, line.end, custom_id, asked["url"], asked["body"])


def bad(line: Line, code: str, message: str, custom_id: str | None = None) -> Item:
    """A line that cannot be run."""
    return Item(line.number, line.start, line.end, custom_id, fault=Fault(code, f"line {line.number} {message}"))


def refuse_constant(name: str) -> None:
    """Python reads NaN and the infinities, which are no JSON."""
    raise ValueError(f"{name} is no JSON")


def shown(value: object) -> str:
    """A value for a message: not more than a line of it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]} ..."
