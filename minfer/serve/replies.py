"""Small JSON responses, in ASCII: an error may quote a text that UTF-8 cannot say.

From: `app.py` and `guard.py`. To: the client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response


def as_json(content: Any) -> str:
    """Strict: NaN and the infinities raise a ValueError."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(as_json(content), status, dict(headers or {}), "application/json")
