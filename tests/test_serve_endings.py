"""How requests end when the deadline passes, the server stops, or the engine is lost; and who is not let in at all."""

from __future__ import annotations

import asyncio
import socket
import threading

import httpx
import pytest
from serve_fixtures import PATIENCE, Running, events_of, running, until

from minfer.serve.answers import Answer, Asked
from minfer.serve.convert import params_of, prompts_of
from minfer.serve.protocol import CompletionRequest


def test_deadline():
    """504 before the first byte, an event after it."""
    with running(deadline=0.5) as server:
        with server.gate.shut():
            answer = server.complete(max_tokens=3)
            assert answer.status_code == 504
            assert answer.json()["error"]["code"] == "timeout"
            assert server.complete(max_tokens=3, stream=True).status_code == 504
        server.settle()
        with server.stream(max_tokens=99) as each:
            lines = each.iter_lines()
            first = next(lines)
            server.gate.open.clear()
            rest = list(lines)
        server.gate.open.set()
        events = events_of("\n\n".join(line for line in (first, *rest) if line))
        assert events[-1] == "[DONE]"
        assert events[-2]["error"]["code"] == "timeout"
        server.settle()


@pytest.mark.parametrize("limit", [0.2, PATIENCE])
def test_shutdown(limit):
    """What is under way ends, or gets an error when the limit has passed; nothing new is taken."""
    answers: list[httpx.Response] = []
    with running(shutdown=limit) as server:
        with server.gate.shut():
            client = threading.Thread(target=lambda: answers.append(server.complete(max_tokens=3)))
            client.start()
            until(lambda: server.front.num_sequences == 1, "it has not been taken")
            server.server.should_exit = True
            until(lambda: server.front.draining, "it does not stop")
            if limit < 1:
                client.join(PATIENCE)
        client.join(PATIENCE)
    assert answers[0].status_code == (200 if limit > 1 else 503)


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_that_closes_while_it_is_written_to(stream):
    """uvloop raises then. Where the client has gone nobody minds; where it has not, that is a fault."""
    with running() as server:
        tried = threading.Event()

        async def send(message) -> None:
            tried.set()
            raise RuntimeError("the handler is closed")

        async def gone() -> dict:
            await asyncio.sleep(0.01)
            return {"type": "http.disconnect" if tried.is_set() else "http.request"}

        async def there() -> dict:
            return await asyncio.sleep(PATIENCE)

        def answer(receive) -> None:
            request = CompletionRequest(prompt="hello", max_tokens=3, stream=stream)
            made = Answer(server.front, Asked(request, prompts_of(request, server.llm.tokenizer), params_of(request), "tiny"))
            asyncio.run_coroutine_threadsafe(made({"type": "http"}, receive, send), server.front.loop).result(PATIENCE)

        answer(gone)
        with pytest.raises(RuntimeError, match="handler is closed"):
            answer(there)
        server.settle()


def test_an_idle_connection_is_kept():
    """httpx keeps one for 5 seconds, aiohttp for 15: a server that closes it first loses their next request now and then."""
    with running() as server:
        assert server.server.config.timeout_keep_alive > 60


def half_a_request(server: Running) -> socket.socket:
    """All of its head, and the first byte of its body."""
    sock = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    sock.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
    return sock


def test_half_a_request_is_not_waited_for_beyond_the_deadline():
    with running(deadline=0.3) as server, half_a_request(server) as sock:
        assert b" 408 " in sock.recv(65536)
        assert sock.recv(65536) == b""
        server.settle()


def test_half_a_request_does_not_hold_up_a_shutdown(caplog):
    """The limit for what is under way is for requests that are there."""
    with running(shutdown=PATIENCE) as server, half_a_request(server) as sock:
        server.complete(max_tokens=2)
        server.server.should_exit = True
        sock.settimeout(PATIENCE / 2)
        assert b" 408 " in sock.recv(65536)
    assert "Exception" not in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_engine_is_lost():
    """Everybody gets an error, and health says so."""
    with running() as server:
        with server.gate.shut():
            answers: list[httpx.Response] = []
            client = threading.Thread(target=lambda: answers.append(server.complete(max_tokens=3)))
            client.start()
            until(lambda: server.front.num_sequences == 1, "it has not been taken")
            server.gate.errors.append(SystemExit())
        client.join(PATIENCE)
        assert answers[0].status_code == 500
        assert server.http.get("/health").status_code == 503
        assert server.complete().status_code == 503


def test_api_key():
    """Without the right key nothing is served but the page and the health."""
    with running(api_key="sésame") as server:
        for key in (None, "", "Bearer", "Bearer sesame", "sésame", "Bearer sésame1", "Basic sésame"):
            headers = {} if key is None else {"authorization": key.encode()}
            answer = server.http.post("/v1/completions", json={"prompt": "x"}, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
            for path in ("/v1/models", "/metrics", "/engine/state", "/openapi.json"):
                assert server.http.get(path, headers=headers).status_code == 401
        assert server.http.get("/health").status_code == 200
        for scheme in ("bearer", "Bearer"):
            headers = {"authorization": f"{scheme} sésame".encode()}
            assert server.http.get("/v1/models", headers=headers).status_code == 200
        assert server.http.post("/v1/completions", json={"prompt": "x", "max_tokens": 2}, headers=headers).status_code == 200
