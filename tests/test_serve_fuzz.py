"""Whatever is sent, the answer is a good one or a 4xx in the API's form; the engine stays whole."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from serve_fixtures import NAME, SAMPLING, Running, events_of, running

NEEDED = {"/v1/completions": "prompt", "/v1/chat/completions": "messages", "/tokenize": "prompt", "/detokenize": "tokens"}

numbers = st.integers(-3, 300) | st.integers() | st.floats() | st.sampled_from([0, 1, -1, 2**31, 2**63, 2**64, 1e30, -1e300])
words = st.text(max_size=8) | st.sampled_from(["", NAME, "\ud83d", "\x00", "text", "user", "1", "5", "9" * 5000])
leaves = st.none() | st.booleans() | numbers | words
anything = st.recursive(leaves, lambda each: st.lists(each, max_size=4) | st.dictionaries(words, each, max_size=3), max_leaves=8)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
ids = st.lists(st.integers(0, 319), min_size=1, max_size=40)
message = st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "assistant"]), "content": texts})
good = {
    "prompt": texts | ids | st.lists(texts, min_size=1, max_size=3) | st.lists(ids, min_size=1, max_size=2),
    "messages": st.lists(message, min_size=1, max_size=3),
    "tokens": st.lists(st.integers(0, 400), max_size=9),
    **SAMPLING,
    "echo": st.booleans(),
    "stream": st.booleans(),
    "user": texts,
    "priority": st.integers(-5, 5),
    "max_tokens": st.integers(1, 9),
}
ODD = [*good, "logprobs", "top_logprobs", "max_completion_tokens", "stream_options", "tools", "response_format", "best_of", "model"]


@st.composite
def requests(draw) -> tuple[str, bytes]:
    """A path and a body: right, or right but for a field or two, or anything at all."""
    path = draw(st.sampled_from([*NEEDED, "/v1/completions", "/v1/chat/completions"]))
    kind = draw(st.integers(0, 11))
    if kind == 0:
        return path, draw(st.binary(max_size=40))
    if kind == 1:
        return path, json.dumps(draw(anything)).encode()
    names = {NEEDED[path], "max_tokens", *draw(st.lists(st.sampled_from(sorted(good)), max_size=4))}
    body = {name: draw(good[name]) for name in sorted(names)}
    if path == "/tokenize":
        body = {"prompt": draw(texts)} if draw(st.booleans()) else {"messages": draw(good["messages"])}
    if "completions" in path and draw(st.booleans()):
        body["logprobs"] = path.startswith("/v1/chat") or draw(st.integers(0, 5))
    for _ in range(draw(st.integers(0, 2)) if kind < 8 else 0):
        body[draw(st.sampled_from(ODD))] = draw(anything)
    return path, json.dumps(body).encode()


@pytest.fixture(scope="module")
def server():
    with running(max_n=4) as this:
        yield this


def check(server: Running, request: tuple[str, bytes]) -> None:
    path, body = request
    answer = server.http.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 200 or 400 <= answer.status_code < 500, f"{answer.status_code} for {body!r}: {answer.text}"
    if answer.status_code != 200:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    elif answer.headers["content-type"].startswith("text/event-stream"):
        *events, done = events_of(answer.text)
        assert done == "[DONE]"
        assert not any("error" in event for event in events)
    else:
        json.dumps(answer.json(), allow_nan=False)


QUICK = {"phases": [Phase.explicit, Phase.generate, Phase.shrink], "suppress_health_check": list(HealthCheck)}


@settings(max_examples=250, **QUICK)
@given(requests())
def test_fuzzed_bodies(server: Running, request):
    check(server, request)


@pytest.mark.slow
@settings(max_examples=2000, **QUICK)
@given(requests())
def test_many_fuzzed_bodies(server: Running, request):
    check(server, request)


def test_the_engine_is_whole(server: Running):
    """After all that."""
    server.settle()
