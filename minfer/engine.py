"""The engine: the one place where the parts meet.

    Request → Sequence → Scheduler.schedule() → Plan → Executor.launch(plan) → Inputs.build(plan) → Batch
            → Runner.run(batch) → model → logits → sample → next_ids
            → Pending.wait() → Scheduler.commit(plan, next_ids) → RequestOutput → text

From: `LLM` or a server adds requests. To: each `step` gives back outputs.
"""

from __future__ import annotations

import functools
import gc
import itertools
import logging
import random
import time
from dataclasses import dataclass

from minfer.admission import check_prompt, check_types, limit_of, prompt_ids_of
from minfer.config import EngineConfig
from minfer.errors import MinferError
from minfer.outputs import RequestOutput
from minfer.params import SamplingParams
from minfer.resolve import resolve
from minfer.sample.noise import derive_seed
from minfer.stages import Stage
from minfer.text.processor import RequestState
from minfer.types import Request, Sampling, Sequence, Status

log = logging.getLogger(__name__)

COUNTS = ("num_steps", "num_preemptions", "usage", "served")  # what a scheduler knows of the past


@dataclass(frozen=True)
class Stats:
    """What a run has cost so far."""

    num_steps: int
    num_preemptions: int
    peak_kv_bytes: int  # K/V memory reserved at once, at most
    kv_wasted: float  # share of the reserved places that held no token, over all steps
    num_free_blocks: int
    num_total_blocks: int


class Engine:
    """Requests in, outputs out, one step at a time."""

    def __init__(self, config: EngineConfig, stage: Stage, tokenizer=None):
        self.config = config
        self.stage = stage
        self.tokenizer = tokenizer
        blocks = resolve("blocks", stage.blocks)
        block_size = blocks.size_of_block(config)
        self._loop = resolve("loop", stage.loop)
        self._policy, preemption = resolve("policy", stage.policy), resolve("preemption", stage.preemption)
        scheduler = resolve("scheduler", stage.scheduler)
        executor = resolve("executor", stage.executor)
        if config.tensor_parallel_size > 1 and not getattr(executor, "parallel", False):
            raise MinferError(
                f"tensor_parallel_size={config.tensor_parallel_size} needs an executor for many devices, and {stage.executor} runs on "
                "one; swap in executor=minfer.executor.processes:ProcessesExecutor"
            )
        self.executor = executor(config, stage, block_size)
        self.blocks = blocks(self.executor.num_blocks, block_size)
        self._new_preemption = functools.partial(preemption, self.executor.num_host_blocks)
        self.scheduler = scheduler(config, self.blocks, self._policy, self._new_preemption())
        self.max_len = min(config.max_model_len, self.blocks.num_total * block_size)
        if self.max_len < config.max_model_len:
            log.warning(
                "the KV cache holds %d tokens: sequences end there, short of max_model_len=%d", self.max_len, config.max_model_len
            )
        self._eos_ids = set(config.model.eos_ids)
        if tokenizer is not None and tokenizer.eos_token_id is not None:
            self._eos_ids.add(tokenizer.eos_token_id)
        self._seeds = random.Random(config.seed)
        self._ids = itertools.count()
        self._requests: dict[str, RequestState] = {}
        self._steps = None  # the running loop
        gc.collect()
        gc.freeze()  # what is alive now stays: without this, Python goes through all of it again every few hundred steps

    def add_request(
        self,
        request_id: str,
        prompt: str | list[int],
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        user: str = "",
        stream: bool = True,
    ) -> None:
        """Queue a request. With stream=False only its final output is shown.

        Raises:
            MinferError: the prompt or the parameters cannot be served; nothing else is affected.
        """
        self._check_open()
        params = SamplingParams() if params is None else params
        check_types(request_id, params, priority, user)
        if request_id in self._requests:
            raise MinferError(f"request id {request_id!r} is in use by a request that has not finished; choose another")
        prompt_ids = prompt_ids_of(prompt, self.tokenizer)
        check_prompt(prompt_ids, params, self.config.model.vocab_size, self.max_len, self.tokenizer)
        seed = params.seed if params.seed is not None else self._seeds.getrandbits(63)
        stop_ids = tuple(sorted(set(params.stop_token_ids) | (set() if params.ignore_eos else self._eos_ids)))
        salt = self.config.model.rope.cache_salt(len(prompt_ids))
        text = prompt if isinstance(prompt, str) else None
        request = Request(request_id, tuple(prompt_ids), params, stop_ids, seed, priority, user, text, salt)
        seqs: list[Sequence] = []
        for index in range(params.n):
            sampling = Sampling(params, derive_seed(seed, index), stop_ids, len(prompt_ids))
            seqs.append(
                Sequence(
                    seq_id=next(self._ids),
                    request=request,
                    index=index,
                    sampling=sampling,
                    token_ids=list(prompt_ids),
                    num_prompt=len(prompt_ids),
                    limit=limit_of(len(prompt_ids), params, self.max_len),
                    parent=seqs[0] if seqs else None,
                    prompt_logprobs=[None],  # nothing comes before the first prompt token
                )
            )
        self._requests[request_id] = RequestState(request, seqs, self.tokenizer, stream)
        try:
            for seq in seqs:
                self.scheduler.add(seq)
        except BaseException:  # a policy's, for example
            self.abort(request_id)
            raise

    def step(self) -> list[RequestOutput]:
        """Run one step. Returns the requests that moved; of those added with stream=False, the ones that ended.

        An exception in a step ends every request; the engine itself stays usable.
        """
        return [state.output() for state in self.advance()]

    def advance(self) -> list[RequestState]:
        """`step` for those who do not want whole outputs: the same requests, as states that can also say what is new of them."""
        if not self.scheduler.has_work():
            return []
        self._steps = self._steps or self._loop(self.scheduler, self.executor)
        try:
            moved = next(self._steps, None)
            if moved is None:
                self._steps = None
            return self._changed(moved or [])
        except BaseException:
            self.abort_all()
            raise

    def abort(self, request_id: str) -> RequestOutput | None:
        """End a request in whatever state it is, and return its last output. Unknown and finished ones: None, nothing happens."""
        state = self._requests.pop(request_id, None)
        if state is None:
            return None
        for seq in state.seqs:
            if not seq.finished:
                self.scheduler.abort(seq.seq_id)
                state.advance(seq)
        return state.output()

    def abort_all(self) -> None:
        """End every request, and the loop with them, and begin the bookkeeping anew.

        An error or Ctrl-C may have come in the middle of it, so nothing of it is kept but the counts: no sequence, row or block, and
        no cached prefix. Scheduler and blocks stay the same objects, since a recording may listen to them.
        """
        self._steps = None
        for seq in (seq for state in self._requests.values() for seq in state.seqs if not seq.finished):
            seq.status, seq.finish_reason, seq.finished_at = Status.FINISHED, "abort", time.monotonic()
            seq.row, seq.block_table, seq.host_blocks = None, [], []
        self._requests.clear()
        scheduler, blocks = self.scheduler, self.blocks
        counts = {name: getattr(scheduler, name) for name in COUNTS if hasattr(scheduler, name)}
        blocks.__init__(blocks.num_total + 1, blocks.block_size)
        scheduler.__init__(self.config, blocks, self._policy, self._new_preemption())
        for name, value in counts.items():
            setattr(scheduler, name, value)

    def has_unfinished(self, request_id: str | None = None) -> bool:
        """Whether that request, or any, has not ended yet."""
        return bool(self._requests) if request_id is None else request_id in self._requests

    def _check_open(self) -> None:
        if self.executor is None:
            raise MinferError("this engine is closed, and its model is gone; make a new one")

    def stats(self) -> Stats:
        """What the run has cost so far.

        Raises:
            MinferError: the engine is closed.
        """
        self._check_open()
        usage = self.executor.usage or self.scheduler.usage
        return Stats(
            self.scheduler.num_steps,
            self.scheduler.num_preemptions,
            usage.peak_reserved * self.executor.kv_bytes_per_token,
            usage.wasted,
            self.blocks.num_free,
            self.blocks.num_total,
        )

    def close(self) -> None:
        """Give the memory back. Closing twice is fine."""
        if self.executor is not None:
            self.abort_all()
            self.executor.close()
            self.executor = None
            gc.unfreeze()

    def _changed(self, moved: list[Sequence]) -> list[RequestState]:
        """The requests of the sequences that got a token, as far as their callers look at them now."""
        changed: dict[str, RequestState] = {}
        for seq in moved:
            state = self._requests.get(seq.request.request_id)
            if state is None or not state.looks_at(seq):
                continue
            stop = state.advance(seq)
            if stop is not None:
                self.scheduler.abort(seq.seq_id, "stop")
                seq.finish_reason, seq.stop_reason = "stop", stop
            if state.stream or state.finished:
                changed[state.request.request_id] = state
        for request_id, state in changed.items():
            if state.finished:
                del self._requests[request_id]
        return list(changed.values())

