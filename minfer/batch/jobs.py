"""Items on one engine: many at once, their records in the order in which the items came.

From: `items.py`. To: records, for `output.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from minfer.batch.items import Item
from minfer.batch.records import answer, fault, timeless
from minfer.errors import MinferError
from minfer.sample.noise import derive_seed

if TYPE_CHECKING:
    from minfer.llm import LLM
    from minfer.outputs import RequestOutput
    from minfer.params import SamplingParams
    from minfer.serve.protocol import SamplingRequest


Kind = Literal["answered", "refused", "unreadable"]


class Done(NamedTuple):
    """A finished line."""

    end: int  # offset of the next line in the input
    record: bytes
    kind: Kind
    output_tokens: int = 0


@dataclass
class Job:
    """A line on its way. A request of the API may have several prompts, each of which is one of the engine's."""

    item: Item
    request: SamplingRequest | None = None
    names: list[str] = field(default_factory=list)  # of the engine's requests, in the prompts' order
    outputs: dict[str, RequestOutput] = field(default_factory=dict)
    done: Done | None = None


class Jobs:
    """The lines that one engine is working on.

    Args:
        model: the name that responses give; a body's own is not looked at.
    """

    def __init__(self, llm: LLM, model: str):
        self.llm = llm
        self.model = model
        self._by_name: dict[str, Job] = {}

    def add(self, item: Item) -> Job:
        """Give a line to the engine. What cannot be run is done at once; nothing else is affected."""
        from minfer.serve.errors import ApiError, bad_request

        job = Job(item)
        if item.fault is not None:
            job.done = Done(item.end, fault(item), "unreadable")
            return job
        try:
            self._start(job)
        except MinferError as error:
            self._abort(job)
            refused: ApiError = bad_request(error)
            job.done = Done(item.end, answer(item, refused.body, refused.status), "refused")
        return job

    def step(self) -> None:
        """Let the engine compute one step, and finish the lines whose last token that was."""
        for output in self.llm.step():
            job = self._by_name.pop(output.request_id, None)
            if job is not None:
                job.outputs[output.request_id] = output
                if len(job.outputs) == len(job.names):
                    self._finish(job)

    def abort(self) -> None:
        """End all that is on its way."""
        for name in list(self._by_name):
            self.llm.abort(name)
        self._by_name.clear()

    def _start(self, job: Job) -> None:
        from minfer.serve.convert import params_of, prompts_of

        job.request = request = read_body(job.item)
        params = params_of(request)
        for index, prompt in enumerate(prompts_of(request, self.llm.tokenizer)):
            name = f"line-{job.item.number}-{index}"
            own = with_seed(params, self.llm.config.seed, job.item.number, index)
            self.llm.add_request(name, prompt.ids, own, priority=request.priority or 0, user=request.user or "", stream=False)
            job.names.append(name)
            self._by_name[name] = job

    def _abort(self, job: Job) -> None:
        for name in job.names:
            self.llm.abort(name)
            self._by_name.pop(name, None)

    def _finish(self, job: Job) -> None:
        from minfer.serve.responses import response_of

        outputs = [job.outputs[name] for name in job.names]
        body = response_of(job.request, outputs, self.llm.tokenizer, self.model).model_dump(mode="json")
        body = timeless(body, job.item)
        job.done = Done(job.item.end, answer(job.item, body), "answered", body["usage"]["completion_tokens"])


def run_items(jobs: Jobs, items: Iterable[Item], window: int) -> Iterator[Done]:
    """Run all items, of which up to `window` are on their way at once, and yield them in their order.

    A line that is done waits for those before it. The window keeps the engine busy meanwhile, and bounds what is held in memory.

    Raises:
        Exception: what a step raises; then nothing is left in the engine.
    """
    items, queue = iter(items), deque[Job]()
    try:
        while True:
            while len(queue) < window and (item := next(items, None)) is not None:
                queue.append(jobs.add(item))
            if not queue:
                return
            if queue[0].done is None:
                jobs.step()
            while queue and queue[0].done is not None:
                yield queue.popleft().done
    finally:
        jobs.abort()


def read_body(item: Item) -> SamplingRequest:
    """The body as the API's request.

    Raises:
        ApiError: it is none.
    """
    from pydantic import ValidationError

    from minfer.serve.errors import ApiError, from_validation
    from minfer.serve.protocol import ChatCompletionRequest, CompletionRequest

    kind = ChatCompletionRequest if item.url.endswith("/chat/completions") else CompletionRequest
    try:
        request = kind.model_validate(item.body)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_context=False)) from None
    if request.stream:
        raise ApiError(400, "stream: a line of a batch has one answer; leave it out", param="stream")
    return request


def with_seed(params: SamplingParams, seed: int, number: int, index: int) -> SamplingParams:
    """A request that brings no seed gets one of the engine's seed, the line's number and the prompt's place: the same in every run."""
    return params if params.seed is not None else replace(params, seed=derive_seed(derive_seed(seed, number), index * params.n))
