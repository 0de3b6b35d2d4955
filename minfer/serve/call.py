"""One HTTP request while the engine works on it.

From: `front.py` puts in what a step brought. To: `answers.py` takes it out when the reader is ready for more.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from minfer.outputs import Logprob, RequestOutput
from minfer.params import SamplingParams
from minfer.serve.errors import ApiError
from minfer.serve.messages import Update
from minfer.text.processor import Delta

if TYPE_CHECKING:
    from minfer.serve.front import Front

News = dict[int, Delta]  # by choice, prompt * n + index: all that is new of it


class Call:
    """`keys`: one engine request for each prompt, in order."""

    def __init__(self, front: Front, keys: list[int], prompt_lens: list[int], params: SamplingParams, stream: bool):
        self.front, self.keys, self.prompt_lens, self.params, self.stream = front, keys, prompt_lens, params, stream
        self.arrived = time.monotonic()
        self.outputs: dict[int, RequestOutput] = {}  # by prompt, of a call that does not stream
        self.prompt_logprobs: dict[int, list[dict[int, Logprob] | None]] = {}  # by prompt, of one that streams
        self.num_cached = 0
        self._made: dict[int, int] = {}  # by choice: tokens
        self._ends: dict[int, list[tuple[str, int]]] = {}  # by prompt: how each completion ended, and after how many tokens
        self._news: News = {}
        self._running = len(keys)
        self._error: ApiError | None = None
        self._waiter: asyncio.Future | None = None
        self._last: float | None = None  # when the last tokens came

    @property
    def num_tokens(self) -> int:
        """Generated so far."""
        return sum(self._made.values())

    @property
    def finished(self) -> bool:
        return self._running == 0

    async def news(self) -> News:
        """What is new since this was last called; waits for something. Empty once all has been given.

        Raises:
            ApiError: the call has failed.
        """
        await self._wait(lambda: bool(self._news) or self.finished)
        news, self._news = self._news, {}
        return news

    async def whole(self) -> list[RequestOutput]:
        """The final outputs in the prompts' order, of a call that does not stream.

        Raises:
            ApiError: the call has failed.
        """
        await self._wait(lambda: self.finished)
        return [self.outputs[i] for i in range(len(self.keys))]

    def close(self) -> None:
        """Nobody reads any more: what still runs is aborted. Closing twice is fine."""
        self.front.end(self)

    def fail(self, error: ApiError) -> None:
        """Whoever waits, or will, gets this error; the rest of the call is aborted."""
        if self._error is None:
            self._error = error
            self.front.end(self)
            self._wake()

    def take(self, prompt: int, update: Update, now: float) -> None:
        """What a step brought."""
        if update.prompt_logprobs is not None:
            self.prompt_logprobs[prompt] = update.prompt_logprobs
        for delta in update.deltas:
            choice = prompt * self.params.n + delta.index
            known = self._news.get(choice)
            self._news[choice] = delta if known is None else merged(known, delta)
            self._count(prompt, delta.index, delta.num_tokens, delta.finish_reason)
        if update.deltas:
            self._time(now)
        if update.output is not None:
            self.outputs[prompt] = update.output
            for each in update.output.outputs:
                self._count(prompt, each.index, len(each.token_ids), each.finish_reason)
        if update.metrics is not None:
            self._running -= 1
            self.num_cached += update.metrics.num_cached_tokens
            ends = self._ends.pop(prompt, [])
            self.front.metrics.take_end(self.prompt_lens[prompt], ends, self.arrived, self.stream, update.metrics)
        if update.deltas or self.finished:
            self._wake()

    def _count(self, prompt: int, index: int, num_tokens: int, finish_reason: str | None) -> None:
        choice = prompt * self.params.n + index
        self._made[choice] = self._made.get(choice, 0) + num_tokens
        self.front.metrics.generated.inc(num_tokens)
        if finish_reason is not None:
            self._ends.setdefault(prompt, []).append((finish_reason, self._made[choice]))

    def _time(self, now: float) -> None:
        if self._last is None:
            self.front.metrics.first_token.observe(now - self.arrived)
        else:
            self.front.metrics.inter_token.observe(now - self._last)
        self._last = now

    async def _wait(self, ready) -> None:
        while self._error is None and not ready():
            self._waiter = self.front.loop.create_future()
            await self._waiter
        if self._error is not None:
            raise self._error

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def merged(first: Delta, then: Delta) -> Delta:
    """Two deltas of one completion as one."""
    logprobs = None if then.logprobs is None else [*(first.logprobs or []), *then.logprobs]
    return Delta(
        then.index, first.text + then.text, first.num_tokens + then.num_tokens, logprobs, then.finish_reason, then.stop_reason
    )
