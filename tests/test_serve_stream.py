"""The form of a stream, and a reader that lags: nothing lost, nothing doubled."""

from __future__ import annotations

import time

import pytest
from engine_fixtures import checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from serve_fixtures import PATIENCE, Running, ask_by_socket, events_of, running

from minfer.serve.call import merged
from minfer.text.processor import Delta


@pytest.fixture(scope="module")
def server():
    with running(checkpoint(max_position_embeddings=1024), {"max_model_len": 1024, "num_kv_blocks": 2048}) as this:
        yield this
        this.settle()


@settings(max_examples=15)
@given(
    chat=st.booleans(),
    n=st.integers(1, 3),
    usage=st.sampled_from([None, False, True]),
    max_tokens=st.integers(1, 12),
    text=st.text(st.characters(codec="utf-8", exclude_characters="<"), min_size=1, max_size=8),
)
def test_form(server: Running, chat, n, usage, max_tokens, text):
    """Role first, finish_reason null and then once, the usage only if asked for and with no choices, [DONE] last."""
    fields = {"stream": True, "n": n, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 1, "seed": 1}
    fields |= {} if usage is None else {"stream_options": {"include_usage": usage}}
    answer = server.chat(text, **fields) if chat else server.complete(text, **fields)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *events, done = events_of(answer.text)
    assert done == "[DONE]"
    assert len({event["id"] for event in events}) == 1
    assert all(event["object"] == ("chat.completion.chunk" if chat else "text_completion") for event in events)
    if usage:
        last = events.pop()
        assert last["choices"] == []
        assert last["usage"]["completion_tokens"] == n * max_tokens
        assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + n * max_tokens
    assert all(not event.get("usage") for event in events)
    by_choice: dict[int, list] = {}
    for event in events:
        (choice,) = event["choices"]
        by_choice.setdefault(choice["index"], []).append(choice)
    assert sorted(by_choice) == list(range(n))
    whole = (server.chat if chat else server.complete)(text, **{**fields, "stream": False, "stream_options": None}).json()["choices"]
    for index, choices in by_choice.items():
        assert [each["finish_reason"] for each in choices] == [None] * (len(choices) - 1) + ["length"]
        if chat:
            assert choices[0]["delta"] == {"role": "assistant", "content": ""}
            assert all("role" not in each["delta"] for each in choices[1:])
            assert "".join(each["delta"]["content"] for each in choices) == whole[index]["message"]["content"]
        else:
            assert "".join(each["text"] for each in choices) == whole[index]["text"]


deltas = st.builds(
    Delta, st.just(0), st.text(max_size=4), st.integers(0, 3), st.none(), st.none() | st.sampled_from(["stop", "length"]), st.none()
)


@settings(max_examples=50)
@given(st.lists(deltas, min_size=1, max_size=6))
def test_merging_loses_nothing(parts):
    """However many deltas a reader missed, the one that stands for them has all they had."""
    whole = parts[0]
    for part in parts[1:]:
        whole = merged(whole, part)
    assert whole.text == "".join(part.text for part in parts)
    assert whole.num_tokens == sum(part.num_tokens for part in parts)
    assert whole.finish_reason == parts[-1].finish_reason


def test_merged_logprobs():
    first, then = Delta(0, "a", 1, [{1: "x"}]), Delta(0, "b", 2, [{2: "y"}, {3: "z"}])
    assert merged(first, then).logprobs == [{1: "x"}, {2: "y"}, {3: "z"}]
    assert merged(Delta(0, "a", 1), Delta(0, "b", 1)).logprobs is None


def test_slow_readers_get_everything_and_hold_nobody_up(server: Running):
    """While six clients read nothing, another is served; then each finds its whole text, in fewer events."""
    fields = {"max_tokens": 900, "ignore_eos": True, "logit_bias": {"5": 100}}
    slow = [ask_by_socket(server, **fields) for _ in range(6)]
    expected = server.complete(**fields).json()["choices"][0]["text"]
    deadline = time.monotonic() + PATIENCE
    while server.llm.engine.has_unfinished():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    for sock in slow:
        received = b""
        while piece := sock.recv(4096):
            received += piece
        sock.close()
        body = received.partition(b"\r\n\r\n")[2]
        text = "".join(line for line in dechunked(body).split("\r\n"))
        assert "".join(each["choices"][0]["text"] for each in events_of(text)[:-1]) == expected
    server.settle()


def dechunked(body: bytes) -> str:
    """The content of HTTP's chunked form."""
    content = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        content += body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]
    return content.decode()
