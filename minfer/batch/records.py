"""An answer as a line of the output, in OpenAI's batch format.

    {"id": "batch_req_7", "custom_id": "...", "response": {"status_code": 200, "request_id": "req_7", "body": {...}}, "error": null}

From: `jobs.py`. To: `output.py`. A body that is refused has the status that a server would give it, 400, and the server's error as its
body; a line that cannot be read as a request has no response, but an error. Nothing depends on when or in which company a line was run:
ids come from its number, `created` is 0, and how many prompt tokens were cached is left out.
"""

from __future__ import annotations

import json
from typing import Any

from minfer.batch.items import Item


def head(item: Item) -> bytes:
    """How the record of a line begins, whatever became of it. Two lines never have the same."""
    return f'{{"id": "batch_req_{item.number}", "custom_id": {json.dumps(item.custom_id)}, '.encode()


def answer(item: Item, body: dict[str, Any], status: int = 200) -> bytes:
    """The record of a line that was run or refused. `body`: a response of the API, or its error."""
    return record(item, {"status_code": status, "request_id": f"req_{item.number}", "body": body}, None)


def fault(item: Item) -> bytes:
    """The record of a line that is no request."""
    return record(item, None, {"code": item.fault.code, "message": item.fault.message})


def record(item: Item, response: dict | None, error: dict | None) -> bytes:
    """A line with its end. It is ASCII: readers differ in what ends a line of Unicode, and half a surrogate pair has no UTF-8."""
    rest = json.dumps({"response": response, "error": error}, allow_nan=False)
    return head(item) + rest[1:].encode() + b"\n"


def timeless(body: dict[str, Any], item: Item) -> dict[str, Any]:
    """A response of the API without what differs from run to run."""
    kind = "chatcmpl" if body["object"].startswith("chat") else "cmpl"
    usage = {name: count for name, count in body["usage"].items() if name != "prompt_tokens_details"}
    return {**body, "id": f"{kind}-{item.number}", "created": 0, "usage": usage}
