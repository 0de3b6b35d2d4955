"""The event loop's side of the engine: requests go out, and what comes back is handed to those who wait for it.

From: `answers.py` submits calls. To: `worker.py`, through a pipe; its Reports wake every call that has something new, once a step.

A call is one HTTP request: one or several prompts, each with n completions. A reader that lags finds what it missed merged into one
delta for each completion, so that it holds no more memory than its own text.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from minfer.admission import check_prompt
from minfer.errors import MinferError
from minfer.params import SamplingParams
from minfer.serve.call import Call
from minfer.serve.errors import ApiError, bad_request
from minfer.serve.messages import Abort, EngineInfo, Load, Look, Report, State, Stop, Submit
from minfer.serve.metrics import Metrics

log = logging.getLogger(__name__)

FRESH = 0.2  # seconds for which a state is not asked for again


@dataclass(frozen=True)
class Limits:
    """What one request may ask for, and how many may be there at once."""

    max_waiting: int = 256  # sequences beyond those that can run at once
    deadline: float = 600.0  # seconds from a request's arrival to its last byte
    max_body: int = 8 << 20  # bytes
    max_n: int = 128
    max_tokens: int | None = None  # of one completion; None: what the model's length allows
    shutdown: float = 30.0  # seconds for what is under way to end

    def __post_init__(self) -> None:
        for name, least in (("max_waiting", 0), ("deadline", 0), ("max_body", 1), ("max_n", 1), ("max_tokens", 1), ("shutdown", 0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise MinferError(f"{name}={value!r} must be at least {least}")


class Front:
    """Everything runs in the event loop that called `start`."""

    def __init__(self, pipe: Connection, info: EngineInfo, limits: Limits, tokenizer, metrics: Metrics):
        self.pipe, self.info, self.limits, self.tokenizer, self.metrics = pipe, info, limits, tokenizer, metrics
        self.load = Load()
        self.num_sequences = 0  # alive
        self.failed: str | None = None  # why no engine is there any more
        self.draining = False  # what is under way may end, and nothing new may come
        self._calls: dict[int, tuple[Call, int]] = {}  # by key: the call, and which of its prompts
        self._keys = itertools.count()
        self._state: tuple[float, dict] | None = None
        self._state_asked: asyncio.Future | None = None

    @property
    def capacity(self) -> int:
        """Sequences that may be alive at once."""
        return self.info.max_num_seqs + self.limits.max_waiting

    def start(self) -> None:
        """Begin to listen to the engine."""
        self.loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, name="minfer-reports", daemon=True).start()

    def submit(
        self, prompts: Sequence[list[int]], params: SamplingParams, *, stream: bool, priority: int = 0, user: str = ""
    ) -> Call:
        """Queue a call. Whoever gets it must `close` it, whatever happens.

        Raises:
            ApiError: 400 for what cannot be served, 429 where too much is under way, 503 where there is no engine, or not for long.
        """
        self.check_open()
        self._check(prompts, params)
        wanted = len(prompts) * params.n
        if wanted > self.capacity:
            text = f"{len(prompts)} prompts with n={params.n} are {wanted} sequences, and the server takes {self.capacity} at once"
            raise ApiError(400, f"{text}; send several requests", param="n")
        if self.num_sequences + wanted > self.capacity:
            self.metrics.refused.inc()
            raise ApiError(
                429,
                f"{self.num_sequences} sequences are under way, and the server takes {self.capacity}; try again in a moment",
                code="rate_limit_exceeded",
                headers={"Retry-After": "1"},
            )
        keys = [next(self._keys) for _ in prompts]
        call = Call(self, keys, [len(ids) for ids in prompts], params, stream)
        self.num_sequences += wanted
        for i, (key, ids) in enumerate(zip(keys, prompts, strict=True)):
            self._calls[key] = call, i
            self._send(Submit(key, ids, params, stream, priority, user))
        return call

    def end(self, call: Call) -> None:
        """Nobody waits for the call any more; what of it is still alive is aborted. Doing it twice is fine."""
        for key in call.keys:
            if self._calls.pop(key, None) is not None:
                self.num_sequences -= call.params.n
                self._send(Abort(key))

    async def state(self) -> dict:
        """What the engine is doing now; not older than FRESH, a step of the engine aside."""
        self.check_open()
        if self._state is not None and time.monotonic() - self._state[0] < FRESH:
            return self._state[1]
        if self._state_asked is None:
            self._state_asked = self.loop.create_future()
            self._send(Look())
        return await asyncio.shield(self._state_asked)

    def drain(self) -> None:
        """Take nothing new. What is under way may end within the limit; then it gets an error."""
        if not self.draining:
            self.draining = True
            self.loop.call_later(self.limits.shutdown, self.end_all, ApiError(503, "the server was shut down before this was done"))

    def end_all(self, error: ApiError) -> None:
        """Every call gets this error."""
        for call in {call for call, _ in self._calls.values()}:
            call.fail(error)

    def close(self) -> None:
        """Tell the engine to stop, and listen no more."""
        if self.failed is None:
            self._send(Stop())
            self.failed = "the server has been shut down"

    def check_open(self) -> None:
        """Raises an ApiError, 503, if no new request is taken."""
        if self.failed is not None:
            raise ApiError(503, self.failed)
        if self.draining:
            raise ApiError(503, "the server is shutting down; send this to another one", headers={"Retry-After": "10"})

    def _check(self, prompts: Sequence[list[int]], params: SamplingParams) -> None:
        """Refuse here what the engine would refuse, and what is beyond the server's own limits."""
        limits = self.limits
        if params.n > limits.max_n:
            raise ApiError(400, f"n={params.n} is more than the {limits.max_n} that this server gives", param="n")
        if limits.max_tokens is not None and (params.max_tokens is None or params.max_tokens > limits.max_tokens):
            asked = "no max_tokens" if params.max_tokens is None else f"max_tokens={params.max_tokens}"
            raise ApiError(400, f"{asked}, and this server gives {limits.max_tokens} at most; ask for fewer", param="max_tokens")
        for ids in prompts:
            try:
                check_prompt(ids, params, self.info.vocab_size, self.info.max_len, self.tokenizer)
            except MinferError as error:
                raise bad_request(error) from error

    def _send(self, command) -> None:
        if self.failed is None:
            try:
                self.pipe.send(command)
            except OSError as error:
                self._fail(error)

    def _listen(self) -> None:
        """In a thread of its own, one answer at a time: while the loop has not taken one, the next stays in the pipe.

        The loop could watch the pipe itself, but a loop may make what it watches non-blocking (uvloop does). A pipe that is full, or
        that holds half a message, would then look like one that is broken.
        """
        taken = threading.Semaphore(0)

        def take(answer) -> None:
            taken.release()
            self._answered(answer)

        with contextlib.suppress(RuntimeError):  # the loop is closed
            try:
                while True:
                    self.loop.call_soon_threadsafe(take, self.pipe.recv())
                    taken.acquire()
            except (EOFError, OSError) as error:
                self.loop.call_soon_threadsafe(self._fail, error)

    def _answered(self, answer: Report | State) -> None:
        if isinstance(answer, Report):
            self._take(answer)
        elif isinstance(answer, State):
            self._state = time.monotonic(), answer.content
            if self._state_asked is not None and not self._state_asked.done():
                self._state_asked.set_result(answer.content)
            self._state_asked = None

    def _take(self, report: Report) -> None:
        now = time.monotonic()
        self.metrics.take_load(report.load, self.load)
        self.load = report.load
        for update in report.updates:
            entry = self._calls.get(update.key)
            if entry is None:
                continue  # it was aborted meanwhile
            call, prompt = entry
            if update.metrics is not None or update.error is not None:
                del self._calls[update.key]
                self.num_sequences -= call.params.n
            if update.error is not None:
                call.fail(ApiError(*update.error))
            else:
                call.take(prompt, update, now)

    def _fail(self, error: Exception) -> None:
        """The engine's process has ended, or its thread: nothing can be served any more."""
        if self.failed is None:
            self.failed = "the engine has ended unexpectedly; the server's log says why, and it must be started again"
            log.error("lost the engine (%s: %s)", type(error).__name__, error)
            self.end_all(ApiError(500, self.failed))
            if self._state_asked is not None and not self._state_asked.done():
                self._state_asked.set_exception(ApiError(503, self.failed))
