"""A real server on a free port, in a thread of the test's process, with a tiny model behind it.

From: `engine_fixtures.py` makes the checkpoint. To: the tests of `minfer/serve`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
from engine_fixtures import checkpoint
from hypothesis import strategies as st

from minfer import LLM
from minfer.serve.front import Limits
from minfer.serve.run import Server, listen, make_front, start_thread
from minfer.testing.invariants import check_idle

NAME = "tiny"
SIZES = {"max_model_len": 128, "max_num_seqs": 8, "block_size": 4, "device": "cpu"}
SAMPLING = {  # fields of a request, under the names of SamplingParams, with values that are allowed
    "n": st.integers(1, 3),
    "temperature": st.floats(0, 2),
    "top_p": st.floats(0.01, 1),
    "top_k": st.integers(-1, 400),
    "min_p": st.floats(0, 1),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0.5, 2),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "stop": st.text(min_size=1, max_size=8) | st.lists(st.text(min_size=1, max_size=8), max_size=4),
    "stop_token_ids": st.lists(st.integers(0, 319), max_size=4),
    "ignore_eos": st.booleans(),
    "include_stop_str_in_output": st.booleans(),
    "skip_special_tokens": st.booleans(),
    "logit_bias": st.dictionaries(st.integers(0, 319).map(str), st.floats(-100, 100), max_size=4),
}
PATIENCE = 60.0  # seconds: other work on the machine may freeze a test for a while


class Gate:
    """Holds the engine back before each step, while it is shut; or makes the next steps fail."""

    def __init__(self, llm: LLM):
        self.open = threading.Event()
        self.open.set()
        self.errors: list[Exception] = []
        self.steps = 0
        launch = llm.engine.executor.launch

        def gated(plan):
            self.open.wait(PATIENCE)
            self.steps += 1
            if self.errors:
                raise self.errors.pop()
            return launch(plan)

        llm.engine.executor.launch = gated

    @contextlib.contextmanager
    def shut(self) -> Iterator[None]:
        self.open.clear()
        try:
            yield
        finally:
            self.open.set()


class Running:
    """A server that runs: how to talk to it, and what is behind it."""

    def __init__(self, llm: LLM, server: Server, port: int):
        self.llm, self.server, self.front = llm, server, server.front
        self.gate = Gate(llm)
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE)
        self.client = openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE)

    def complete(self, prompt: Any = "hello", **fields: Any) -> httpx.Response:
        return self.http.post("/v1/completions", json={"prompt": prompt, "temperature": 0, **fields})

    def chat(self, text: str = "hello", **fields: Any) -> httpx.Response:
        messages = [{"role": "user", "content": text}]
        return self.http.post("/v1/chat/completions", json={"messages": messages, "temperature": 0, **fields})

    def stream(self, **fields: Any):
        """A stream that is open while the `with` lasts."""
        body = {"prompt": "hello", "temperature": 0, "ignore_eos": True, "stream": True, **fields}
        return self.http.stream("POST", "/v1/completions", json=body)

    def offline(self, prompt: Any, params) -> list[str]:
        """The texts that the same model gives without a server."""
        with LLM(str(checkpoint()), **SIZES) as llm:
            return [each.text for each in llm.generate(prompt, params, progress=False)[0].outputs]

    def settle(self) -> None:
        """Wait until nobody is served any more, and see that the engine has everything back."""
        until(lambda: not self.front.num_sequences and not self.llm.engine.has_unfinished(), "requests are still alive")
        check_idle(self.llm.engine.scheduler)
        assert self.complete(max_tokens=2).status_code == 200


@contextlib.contextmanager
def running(path: Path | None = None, options: dict | None = None, api_key: str | None = None, **limits: Any) -> Iterator[Running]:
    """Start a server; stop it afterwards, if it has not been stopped meanwhile."""
    llm = LLM(str(path or checkpoint()), **{**SIZES, **(options or {})})
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        pipe, info, worker = start_thread(llm, NAME)
        server = Server(make_front(pipe, info, Limits(**{"shutdown": 1.0, **limits}), [NAME]), [NAME], api_key)
        this = Running(llm, server, port)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
        thread.start()
        until(lambda: server.started, "the server has not started")
        try:
            yield this
        finally:
            this.gate.open.set()
            this.http.close()
            this.client.close()
            server.should_exit = True
            thread.join(PATIENCE)
            pipe.close()
            worker.join(PATIENCE)
            assert not thread.is_alive(), "the server has not ended"
            assert not worker.is_alive(), "the engine's thread has not ended"
            check_idle(llm.engine.scheduler)
            llm.close()


def until(condition, what: str) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what}, after {PATIENCE:g} s"
        time.sleep(0.005)


def events_of(text: str) -> list[Any]:
    """The events of a stream, parsed; the last one is "[DONE]"."""
    lines = [line for line in text.split("\n\n") if line]
    assert all(line.startswith("data: ") for line in lines), text
    data = [line.removeprefix("data: ") for line in lines]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def ask_by_socket(server: Running, **fields) -> socket.socket:
    """A client that reads only when it wants to, through the smallest window that the system gives."""
    body = json.dumps({"prompt": "hello", "temperature": 0, "stream": True, **fields}).encode()
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    sock.connect(("127.0.0.1", server.port))
    sock.settimeout(PATIENCE)
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    sock.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
    return sock
