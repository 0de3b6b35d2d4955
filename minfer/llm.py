"""LLM: the engine with a model's name and texts in front of it.

    from minfer import LLM, SamplingParams
    llm = LLM("smollm2-135m")
    for output in llm.generate(["The capital of France is"], SamplingParams(temperature=0)):
        print(output.outputs[0].text)
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from minfer.admission import Prompt, conversations_in_a_list, prompts_in_a_list
from minfer.choice import best_stage, with_executor, with_swaps
from minfer.config import make_config
from minfer.engine import Engine, Stats
from minfer.errors import MinferError, PartError
from minfer.hub import find_model
from minfer.outputs import RequestOutput
from minfer.params import SamplingParams
from minfer.progress import TokenProgress
from minfer.resolve import ignored_slots, why_not
from minfer.stages import HF, Stage, find_stage
from minfer.text.chat import Messages, chat_prompt_ids
from minfer.tokenizer import load_tokenizer
from minfer.trace.recording import check_place, record

log = logging.getLogger(__name__)


class LLM:
    """A model, loaded into an engine of the chosen stage. Several threads may use it at once; they take turns, a step each.

    Args:
        model: a short name (smollm2-135m), a hub id, a folder, a .gguf file, or a shape with random weights (dummy:qwen3-0.6b).
        stage: a stage's name; None takes the fastest that this machine can run (`why_stage` says why).
        swap: parts to put into other slots, {"attention": "mine.py:attention"}.
        trace: where to write a trace of all that the engine does, on `close` or at the end of the process; True keeps it in memory
            only (`llm.recording`). None, the default, records nothing and costs nothing.
        executor: "processes" or "ray", for many devices; None: the stage's own, and processes if tensor_parallel_size is above 1.
        tensor_parallel_size: devices that hold the model together.
        dtype, device, max_model_len, max_num_batched_tokens, memory_share, ...: see `minfer.config`.

    Raises:
        ModelError: the model cannot be found or read. PartError: a stage or part cannot run here.
        MinferError: options that contradict each other, or too little memory.
    """

    def __init__(
        self,
        model: str = "smollm2-135m",
        *,
        stage: str | Stage | None = None,
        swap: Mapping[str, str] | None = None,
        revision: str | None = None,
        trace: str | Path | bool | None = None,
        executor: str | None = None,
        **options,
    ):
        if trace is not None and not isinstance(trace, bool):
            check_place(trace)
        device = options.get("device", "auto")
        found, self.why_stage = best_stage(device) if stage is None else (find_stage(stage), "it was asked for")
        found = with_executor(found, executor, options.get("tensor_parallel_size", 1))
        self.stage = with_swaps(found, swap)
        reason = why_not(self.stage, device)
        if reason is not None:
            raise PartError(f"this machine cannot run the stage {self.stage.name!r}: {reason}; use {best_stage(device)[0].name!r}")
        idle = ignored_slots(self.stage) & set(self.stage.differs(found))
        if idle:
            raise PartError(
                f"the stage {self.stage.name!r} never calls the part in {', '.join(sorted(idle))}: its executor has its own; "
                "swap it into a later stage, such as 'decoder'"
            )
        log.info("stage %s: %s", self.stage.name, self.why_stage)
        for slot in self.stage.differs(found):
            log.info("slot %s: %s", slot, getattr(self.stage, slot))
        path = find_model(model, revision)
        config = make_config(path, **options)
        if config.num_host_blocks and self.stage.preemption == HF.preemption:
            raise MinferError(
                f"num_host_blocks={config.num_host_blocks} is room for swapped K/V, and {self.stage.preemption} never swaps; "
                "swap in preemption=minfer.preemption.swap:Swap, or leave num_host_blocks out"
            )
        self.tokenizer = load_tokenizer(path)
        self.engine = Engine(config, self.stage, self.tokenizer)
        self.recording = record(self, None if trace is True else trace) if trace else None
        self._turn = threading.RLock()  # whoever holds it may touch the engine
        self._ids = itertools.count()
        self._awaited: set[str] = set()  # requests of generate() and stream(), which are still to collect their outputs
        self._kept: dict[str, list[RequestOutput]] = {}  # by request: outputs that came up while somebody stepped for another one

    @property
    def config(self):
        return self.engine.config

    def generate(
        self,
        prompts: Prompt | list[Prompt],
        params: SamplingParams | list[SamplingParams] | None = None,
        *,
        progress: bool = True,
    ) -> list[RequestOutput]:
        """Complete the prompts (strings or token ids), in one batch; outputs come in the prompts' order.

        Raises:
            MinferError: a prompt or its parameters cannot be served; the message names it, and none has been run.
        """
        prompts = prompts_in_a_list(prompts)
        if not isinstance(params, list | tuple):
            params = [params] * len(prompts)
        if len(params) != len(prompts):
            raise MinferError(f"{len(prompts)} prompts came with {len(params)} SamplingParams; pass one for all, or one each")
        ids: list[str] = []
        done: dict[str, RequestOutput] = {}
        try:
            for i, (prompt, own) in enumerate(zip(prompts, params, strict=True)):
                ids.append(self._next_id())
                try:
                    self._add(ids[-1], prompt, own, stream=False)
                except MinferError as error:
                    raise type(error)(f"prompt {i}: {error}") from None
            with TokenProgress(len(prompts), progress) as bar:
                mine = set(ids)
                while len(done) < len(ids):
                    for output in self._step_for(mine):
                        done[output.request_id] = output
                        bar.finished(output)
        finally:
            self._leave(set(ids))
        return [done[request_id] for request_id in ids]

    def chat(
        self,
        messages: Messages | list[Messages],
        params: SamplingParams | list[SamplingParams] | None = None,
        *,
        progress: bool = True,
    ) -> list[RequestOutput]:
        """Answer one conversation, or several. A conversation is a list of {"role": ..., "content": ...}."""
        prompts = [chat_prompt_ids(self.tokenizer, each) for each in conversations_in_a_list(messages)]
        return self.generate(prompts, params, progress=progress)

    def stream(self, prompt: Prompt | Messages, params: SamplingParams | None = None) -> Iterator[RequestOutput]:
        """Complete one prompt (or answer one conversation) and yield it after every step; `outputs[i].delta` is what is new."""
        if isinstance(prompt, list | tuple) and prompt and isinstance(prompt[0], Mapping):
            prompt = chat_prompt_ids(self.tokenizer, prompt)
        request_id = self._next_id()
        outputs = self._stream({request_id})
        next(outputs)
        self._add(request_id, prompt, params, stream=True)
        return outputs

    def _stream(self, ids: set[str]) -> Iterator[RequestOutput]:
        try:
            yield  # begun here and now, so that its end comes even if nobody ever reads from it
            finished = False
            while not finished:
                for output in self._step_for(ids):
                    yield output
                    finished = output.finished
        finally:
            self._leave(ids)

    def _next_id(self) -> str:
        """An id for a request of ours; it is known before the request is queued, so that Ctrl-C never leaves one that nobody knows."""
        return next(name for i in self._ids if not self.engine.has_unfinished(name := f"minfer-{i}"))

    def _add(self, request_id: str, prompt: Prompt, params: SamplingParams | None, stream: bool) -> None:
        with self._turn:
            self._awaited.add(request_id)
            self.engine.add_request(request_id, prompt, params, stream=stream)

    def _step_for(self, ids: set[str]) -> list[RequestOutput]:
        """What there is of these awaited requests, after one step if there is nothing yet. Outputs of others are kept for them."""
        with self._turn:
            if self._kept.keys().isdisjoint(ids):
                if not self.engine.has_unfinished():
                    raise MinferError("the request was ended from elsewhere: by abort(), or since a step failed or was interrupted")
                self._keep(self.engine.step())
            return self._take([request_id for request_id in self._kept if request_id in ids])

    def _keep(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            self._kept.setdefault(output.request_id, []).append(output)

    def _take(self, ids: Iterable[str]) -> list[RequestOutput]:
        return [output for request_id in ids for output in self._kept.pop(request_id)]

    def _leave(self, ids: set[str]) -> None:
        """Nobody awaits these requests any more. Where the call that did was cut short, they end here."""
        with self._turn:
            for request_id in ids:
                self.engine.abort(request_id)
            self._take(ids.intersection(self._kept))
            self._awaited -= ids

    # The step API, for those who drive the engine themselves

    def add_request(self, request_id: str, prompt: Prompt, params: SamplingParams | None = None, **options) -> None:
        """Queue a request; see `Engine.add_request`."""
        with self._turn:
            self.engine.add_request(request_id, prompt, params, **options)

    def step(self) -> list[RequestOutput]:
        """Run one step; see `Engine.step`. What generate() or stream() waits for is left to them."""
        with self._turn:
            self._keep(self.engine.step())
            return self._take([request_id for request_id in self._kept if request_id not in self._awaited])

    def abort(self, request_id: str) -> RequestOutput | None:
        """End a request; see `Engine.abort`."""
        with self._turn:
            return self.engine.abort(request_id)

    def has_unfinished(self) -> bool:
        """Whether `step` has more to do, or to give."""
        with self._turn:
            return self.engine.has_unfinished() or bool(self._kept.keys() - self._awaited)

    def stats(self) -> Stats:
        return self.engine.stats()

    def close(self) -> None:
        """Give the memory back, and write the trace if there is one. Closing twice is fine."""
        with self._turn:
            self.engine.close()
        if self.recording is not None:
            self.recording.stop()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *exception) -> None:
        self.close()
