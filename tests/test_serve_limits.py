"""What a server refuses, and requests that nobody lets finish. Afterwards the engine is whole and serves on."""

from __future__ import annotations

import json
import re
import socket
import threading

import httpx
import openai
import pytest
from serve_fixtures import NAME, PATIENCE, SIZES, Running, ask_by_socket, running, until

from minfer.errors import MinferError
from minfer.serve.front import Limits
from minfer.serve.run import listen


@pytest.fixture(scope="module")
def server():
    with running(max_waiting=2, max_body=4000, max_n=4, max_tokens=60, deadline=PATIENCE) as this:
        yield this


@pytest.fixture(autouse=True)
def _whole_afterwards(request):
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").settle()


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"prompt": "x" * 200}, None, r"prompt has \d+ tokens"),
        ({"prompt": ""}, None, None),
        ({"prompt": []}, "prompt", "empty list"),
        ({"prompt": [[]]}, "prompt", "no tokens"),
        ({"prompt": ["a", [1]]}, "prompt", "must be"),
        ({"prompt": [10**6]}, None, "ids go from 0 to"),
        ({"prompt": [-1]}, None, "ids go from 0 to"),
        ({"prompt": [True]}, "prompt", "must be"),
        ({"prompt": None}, "prompt", "must be"),
        ({"prompt": "\ud83d"}, "prompt", "surrogate"),
        ({"n": 0}, "n", "from 1"),
        ({"n": 5}, "n", "more than the 4"),
        ({"prompt": ["a"] * 6, "n": 2}, "n", "takes 10 at once"),
        ({"max_tokens": 0}, "max_tokens", "at least 1"),
        ({"max_tokens": 61}, "max_tokens", "gives 60 at most"),
        ({"max_tokens": 10**9}, "max_tokens", "gives 60 at most"),
        ({"temperature": -1}, "temperature", "from 0"),
        ({"temperature": "1"}, "temperature", "number"),
        ({"top_p": 0}, "top_p", "greedy"),
        ({"logprobs": 21}, "logprobs", "from 0 to 20"),
        ({"logit_bias": {"x": 1}}, "logit_bias", "token id"),
        ({"logit_bias": {"999999": 1}}, None, "ids go from 0"),
        ({"stop": [""]}, "stop", "empty string"),
        ({"stop": ["a"] * 65}, "stop", "at most 64"),
        ({"seed": 2**63}, "seed", "from"),
        ({"best_of": 3}, None, "best_of is not offered"),
        ({"suffix": "x"}, None, "suffix is not offered"),
        ({"stream_options": {"include_usage": True}}, None, "for streams"),
    ],
)
def test_bad_requests(server: Running, fields, param, words):
    """400, in the API's form, with the field's name and its limit; the engine never hears of it."""
    body = {"prompt": "hello", "max_tokens": 4, **fields}
    answer = server.http.post("/v1/completions", content=json.dumps(body), headers={"content-type": "application/json"})
    if words is None:
        assert answer.status_code == 200  # this tokenizer puts a BOS before an empty text
        return
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert re.search(words, error["message"]), error["message"]


def test_bad_chats(server: Running):
    for messages, words in (
        ([], "empty"),
        ([{"role": "wizard", "content": "x"}], "unknown role"),
        ([{"role": "user"}], "messages"),
        ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "'image_url' is not offered"),
        ([{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function"}]}], "tool_calls in a message"),
    ):
        answer = server.http.post("/v1/chat/completions", json={"messages": messages, "max_tokens": 2})
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "messages"
        assert words in answer.json()["error"]["message"]
    answer = server.chat(tools=[{"type": "function", "function": {"name": "f"}}], max_tokens=2)
    assert "tools is not offered" in answer.json()["error"]["message"]
    assert server.chat(tools=[], tool_choice="none", response_format={"type": "text"}, max_tokens=2).status_code == 200


def test_what_is_no_request(server: Running):
    """Broken JSON, other paths and methods: 4xx in the same form."""
    for answer, status in (
        (server.http.post("/v1/completions", content=b"{", headers={"content-type": "application/json"}), 400),
        (server.http.post("/v1/completions", content=b"[" * 3000, headers={"content-type": "application/json"}), 400),
        (server.http.post("/v1/completions", content=b"\xff\xfe", headers={"content-type": "application/json"}), 400),
        (server.http.post("/v1/completions", content=b'{"prompt": "x"}'), 415),
        (server.http.get("/v1/completions"), 405),
        (server.http.post("/v1/embeddings", json={}), 404),
        (server.http.get(f"/page/{'x' * 4000}.css"), 404),
        (server.http.get("/page/..%2fapp.css"), 404),
        (server.http.get("/page/%00.css"), 404),
        (server.http.post("/v1/completions", json={"prompt": "x", "model": "other"}), 404),
    ):
        assert answer.status_code == status
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        assert answer.json()["error"]["param"] in (None, "model")


def test_the_openai_client_raises_its_own_errors(server: Running):
    with pytest.raises(openai.BadRequestError, match="from 0"):
        server.client.completions.create(model=NAME, prompt="x", temperature=-1)
    with pytest.raises(openai.NotFoundError, match="no model is called"):
        server.client.completions.create(model="other", prompt="x")


def test_large_bodies(server: Running):
    """413, whether the size is said beforehand or not."""
    body = json.dumps({"prompt": "x" * 4000}).encode()
    headers = {"content-type": "application/json"}
    assert server.http.post("/v1/completions", content=body, headers=headers).status_code == 413
    pieces = (body[i : i + 500] for i in range(0, len(body), 500))
    assert server.http.post("/v1/completions", content=pieces, headers=headers).status_code == 413


def test_back_pressure(server: Running):
    """Beyond what can run and wait, a request gets 429 with Retry-After; those that wait are served."""
    answers: list[httpx.Response] = []
    with server.gate.shut():
        clients = [threading.Thread(target=lambda: answers.append(server.complete(max_tokens=3))) for _ in range(10)]
        for each in clients:
            each.start()
        until(lambda: server.front.num_sequences == 10, "not all have been taken")
        for stream in (False, True):
            refused = server.complete(max_tokens=3, stream=stream)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        with pytest.raises(openai.RateLimitError):
            server.client.completions.create(model=NAME, prompt="x", max_tokens=3)
    for each in clients:
        each.join(PATIENCE)
    assert [answer.status_code for answer in answers] == [200] * 10
    assert "minfer:request_refused_total" in server.http.get("/metrics").text


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_ends_its_request(server: Running, stream):
    """Before its first byte and in the middle of a stream: the engine stops working for it."""
    with server.gate.shut():
        sock = ask_by_socket(server, stream=stream, max_tokens=60, n=2, ignore_eos=True)
        until(lambda: server.front.num_sequences == 2, "it has not been taken")
        sock.close()
        until(lambda: not server.front.num_sequences, "it is still alive")
    until(lambda: not server.llm.engine.has_unfinished(), "the engine works for nobody")
    steps = server.gate.steps
    with server.stream(max_tokens=60) as each:
        next(each.iter_lines())
        server.gate.open.clear()
    server.gate.open.set()
    until(lambda: not server.llm.engine.has_unfinished(), "the engine works for nobody")
    assert server.gate.steps - steps < 60


def test_an_error_in_a_step_ends_its_requests_and_no_others(server: Running):
    """500 where nothing was sent yet, an event where a stream had begun; the next request is served."""
    server.gate.errors.append(RuntimeError("the device is gone"))
    answer = server.complete(max_tokens=3)
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error"
    assert "RuntimeError" in answer.json()["error"]["message"]
    assert "device" not in answer.json()["error"]["message"]
    with server.stream(max_tokens=60) as each:
        lines = each.iter_lines()
        first = next(lines)
        server.gate.errors.append(RuntimeError("again"))
        *_, error, done = [line for line in (first, *lines) if line]
    assert done == "data: [DONE]"
    assert json.loads(error.removeprefix("data: "))["error"]["type"] == "server_error"
    stream = server.client.completions.create(model=NAME, prompt="x", stream=True, max_tokens=60, extra_body={"ignore_eos": True})
    next(stream)
    server.gate.errors.append(RuntimeError("once more"))
    with pytest.raises(openai.APIError, match="engine failed"):
        list(stream)


def test_limits_are_checked():
    for name in ("max_waiting", "deadline", "max_body", "max_n", "max_tokens", "shutdown"):
        with pytest.raises(MinferError, match=f"{name}=-1 must be at least"):
            Limits(**{name: -1})


def test_a_prompt_fits_or_is_refused_as_offline(server: Running):
    """The longest prompt that leaves room for a token is served, the next one is not; the output ends at the model's limit."""
    longest = SIZES["max_model_len"] - 1
    answer = server.complete([5] * longest, max_tokens=9, ignore_eos=True).json()
    assert answer["usage"]["completion_tokens"] == 1
    assert answer["choices"][0]["finish_reason"] == "length"
    refused = server.complete([5] * (longest + 1), max_tokens=9)
    assert refused.status_code == 400
    assert str(longest + 1) in refused.json()["error"]["message"]


def test_small_packets_leave_at_once():
    """asyncio turns Nagle's delay off where it knows that a socket speaks TCP; otherwise each answer would take 40 ms longer."""
    with listen("127.0.0.1", 0) as sock:
        assert sock.proto == socket.IPPROTO_TCP
    with listen("127.0.0.1", 0) as sock, pytest.raises(MinferError, match="choose another --port"):
        listen("127.0.0.1", sock.getsockname()[1])
