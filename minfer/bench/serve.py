"""The load on a running server: a workload sent by client processes of its own, in a closed loop or as a Poisson process.

From: `minfer bench serve`, with the address of any server that speaks OpenAI's completions. To: a `Load`, for its table, report and
plot.

In a closed loop a fixed number of streams is kept open: when an answer ends, the next request is sent, so the server is never asked
for more than it does. In an open loop requests come at a rate, whether or not the server keeps up.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minfer.bench.serve_client import Served, Share, work
from minfer.bench.serve_load import Load
from minfer.bench.workload import Workload
from minfer.errors import MinferError

if TYPE_CHECKING:
    import httpx

LEAD = 0.2  # seconds from the last process' "ready" to the start
MOST_CLIENTS = 4  # processes, where nobody asks for another number


@dataclass(frozen=True)
class Server:
    """A server that answers, and the model that it serves."""

    url: str  # up to and without /v1
    model: str
    max_model_len: int | None  # None: it does not say
    headers: dict[str, str]


def find_server(url: str, model: str | None = None, api_key: str | None = None) -> Server:
    """Ask the server which model it has.

    Args:
        url: with or without /v1 at its end.
        model: the name under which it is served; None: the first that the server lists.

    Raises:
        MinferError: nobody answers there, or not as an OpenAI-compatible server does.
    """
    import httpx

    base = url.rstrip("/").removesuffix("/v1")
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    try:
        response = httpx.get(f"{base}/v1/models", headers=headers, timeout=30, trust_env=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise MinferError(f"no server answers at {base}: {error}; start one with `minfer serve`, or name its address") from error
    models = models_of(response, base)
    if model is None:
        model = next(iter(models))
    elif model not in models:
        raise MinferError(f"the server at {base} has no model {model!r}; it has {', '.join(models)}")
    return Server(base, model, models[model].get("max_model_len"), headers)


def models_of(response: httpx.Response, base: str) -> dict[str, dict]:
    """The models of an answer from /v1/models, by name; at least one."""
    if response.status_code in (401, 403):
        raise MinferError(f"the server at {base} wants another API key (HTTP {response.status_code}); give it with --api-key")
    try:
        models = {each["id"]: each for each in response.json()["data"]}
    except (ValueError, LookupError, TypeError):
        models = {}
    if response.status_code != 200 or not models:
        raise MinferError(f"{base}/v1/models answered HTTP {response.status_code} without a list of models: {response.text[:200]!r}")
    return models


def default_clients() -> int:
    """Client processes: a quarter of the cores, so that a server on this machine keeps the others; at most MOST_CLIENTS."""
    return max(1, min(MOST_CLIENTS, (os.cpu_count() or 1) // 4))


def bodies(workload: Workload, model: str) -> list[bytes]:
    """The requests as JSON. ignore_eos is not OpenAI's own; it is left out where the workload does not ask for it."""
    extra = {"ignore_eos": True} if workload.ignore_eos else {}
    options = {"model": model, "temperature": workload.temperature, "stream": True, "stream_options": {"include_usage": True}, **extra}
    pairs = zip(workload.prompts, workload.max_tokens, strict=True)
    return [json.dumps({**options, "prompt": prompt, "max_tokens": n, "seed": i}).encode() for i, (prompt, n) in enumerate(pairs)]


def load(
    server: Server,
    workload: Workload,
    *,
    concurrency: int | None = None,
    due: list[float] | None = None,
    clients: int = 1,
    timeout: float = 600.0,
) -> Load:
    """Send the whole workload, and wait for the last answer.

    Args:
        concurrency: streams of a closed loop; due: or, of an open one, the seconds after the start at which each request is sent.
        clients: processes that share the work.
        timeout: seconds without a sign of the server after which a request is given up.

    Raises:
        MinferError: a client process died, or no request at all was answered.
    """
    if (concurrency is None) == (due is None):
        raise MinferError("a load is either `concurrency` streams or requests that are `due` at given times; give one of the two")
    requests = bodies(workload, server.model)
    clients = min(clients, len(requests), concurrency or len(requests))
    shares = [
        Share(
            f"{server.url}/v1/completions",
            f"{server.url}/v1/models",
            server.headers,
            requests,
            due,
            list(range(len(requests)))[i::clients],
            streams=0 if concurrency is None else len(range(i, concurrency, clients)),
            timeout=timeout,
        )
        for i in range(clients)
    ]
    start, results = run_processes(shares)
    served = sorted((each for share, _ in results for each in share), key=lambda each: each.index)
    if all(each.error for each in served):
        raise MinferError(f"none of {len(served)} requests was answered; the first: {served[0].error}")
    return Load(start, served, [busy for _, busy in results])


def run_processes(shares: Iterable[Share]) -> tuple[float, list[tuple[list[Served], float]]]:
    """A process for each share, all started at the same time → (start, what each sent back)."""
    context = multiprocessing.get_context("spawn")  # a fork would copy PyTorch's threads in whatever state they are
    following = context.Value("q", 0)
    processes, pipes = [], []
    try:
        for share in shares:
            pipe, theirs = context.Pipe()
            processes.append(context.Process(target=work, args=(theirs, share, following), daemon=True))
            processes[-1].start()
            theirs.close()
            pipes.append(pipe)
        for pipe in pipes:
            pipe.recv()
        start = time.monotonic() + LEAD
        for pipe in pipes:
            pipe.send(start)
        return start, [pipe.recv() for pipe in pipes]
    except (EOFError, BrokenPipeError) as error:
        raise MinferError("a client process ended before its work was done; was it killed for lack of memory?") from error
    finally:
        for process in processes:
            process.terminate()
            process.join()
