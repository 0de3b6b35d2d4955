"""The OpenAI-compatible server: `minfer serve`.

A request's way: `app.py` (HTTP) → `protocol.py` (what may be asked) → `convert.py` (prompt ids and SamplingParams) → `front.py` (the
event loop's side of the engine) → `worker.py` (the engine's side, in a process of its own) → `responses.py` or `chunks.py`.

`protocol.py`, `convert.py`, `responses.py` and `errors.py` need pydantic only: whoever has an LLM at hand can use them without a
server.
"""
