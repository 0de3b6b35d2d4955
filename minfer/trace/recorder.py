"""The recorder: it listens to an engine's scheduler and executor while they work, and writes down what was decided.

From: any engine, of any parts. To: a `Trace`.

It wraps four methods of the scheduler and the executor from outside: `add`, `schedule`, `commit`, `launch`. An engine that is not
recorded runs the code that it always runs. What a step left behind is read off the sequences themselves after `schedule` and compared
with the step before, so that a part needs to know nothing of traces. `docs/trace.md` says what is written and how.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

import minfer
from minfer.errors import MinferError
from minfer.trace.device import DeviceClock, note_bucket
from minfer.trace.edits import without_empty
from minfer.trace.look import Look
from minfer.trace.trace import FORMAT, VERSION, Trace
from minfer.types import Plan, Sampled, Sequence

if TYPE_CHECKING:
    from minfer.engine import Engine


class Recorder:
    """Records an engine from `start` to `stop`; `trace` is what there is so far, at any time.

    Raises:
        MinferError: the engine is recorded already, or a part does not let its methods be wrapped.
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.scheduler, self.executor, self.blocks = engine.scheduler, engine.executor, engine.blocks
        self.begun = time.perf_counter_ns()
        self.steps: list[dict[str, Any]] = []
        self.in_flight: dict[int, tuple[Plan, dict[str, Any]]] = {}  # by the plan's id, in order: the plan, and its step
        self.device = DeviceClock.of(engine)
        self.bucket: list = []
        self.sampled_since = False  # tokens came in after the last entry
        self._undo: list[Callable[[], None]] = []

    def start(self) -> Recorder:
        """Begin to listen. Sequences that are alive already are taken as they are."""
        if "schedule" in getattr(self.scheduler, "__dict__", {}):
            raise MinferError("this engine is being recorded already; stop that recording before another one is started")
        listeners = [
            (self.scheduler, "add", self._add),
            (self.scheduler, "schedule", self._schedule),
            (self.scheduler, "commit", self._commit),
            (self.executor, "launch", self._launch),
        ]
        runner = getattr(self.executor, "runner", None)
        if hasattr(runner, "bucket_of"):
            listeners.append((runner, "bucket_of", partial(note_bucket, self.bucket)))
        try:
            for owner, name, listener in listeners:
                self._wrap(owner, name, listener)
        except MinferError:
            self._unwrap()
            raise
        self.look = Look(self.blocks)
        for seq in getattr(self.scheduler, "live", {}).values():
            self.look.meet(seq, self._now())
        return self

    def stop(self) -> Trace:
        """Listen no more → the trace."""
        trace = self.trace()
        self._unwrap()
        self.look.end()
        return trace

    def trace(self) -> Trace:
        """What has been recorded so far, with the state of now as its end."""
        config, stage = self.engine.config, self.engine.stage
        since = without_empty(self.look.changes())
        if since or self.sampled_since:
            self.steps.append(without_empty({"at": self._now(), **since, "in_flight": len(self.in_flight) or None}))
            self.sampled_since = False
        return Trace({
            "format": FORMAT,
            "version": VERSION,
            "made": {"minfer": minfer.__version__, "torch": torch.__version__, "python": platform.python_version()},
            "engine": {
                "model": config.path.name if config.path.is_dir() else str(config.path),
                "stage": stage.name,
                "parts": stage.parts(),
                "device": str(config.device),
                "dtype": str(config.dtype).removeprefix("torch."),
                "block_size": self.blocks.block_size,
                "num_blocks": self.blocks.num_total,
                "num_host_blocks": config.num_host_blocks,
                "max_num_seqs": config.max_num_seqs,
                "max_num_batched_tokens": config.max_num_batched_tokens,
                "max_model_len": config.max_model_len,
            },
            "sequences": [dict(each) for each in self.look.sequences.values()],
            "steps": [dict(each) for each in self.steps],
            "texts": self._texts(),
        })

    # The wrapped methods, in the order of a step

    def _add(self, add: Callable, seq: Sequence) -> None:
        self.look.meet(seq, self._now())
        add(seq)

    def _schedule(self, schedule: Callable) -> Plan | None:
        begun = self._now()
        plan = schedule()
        ended = self._now()
        if plan is not None:
            step = {"step": plan.step, "at": begun, **self.look.changes(), **self.look.planned(plan)}
            step |= {"in_flight": len(self.in_flight) or None, "host": [[0, ended - begun]]}
            self.steps.append(without_empty(step))
            self.in_flight[id(plan)] = plan, self.steps[-1]
            self.sampled_since = False
        return plan

    def _launch(self, launch: Callable, plan: Plan) -> Any:
        if id(plan) not in self.in_flight:
            return launch(plan)
        _, step = self.in_flight[id(plan)]
        self.bucket.clear()
        timing = self.device.start()
        begun = self._now()
        pending = launch(plan)
        step["host"].append([begun - step["at"], self._now() - begun])
        timing = self.device.stop(timing)
        if self.bucket and self.bucket[-1] is not None:
            step["bucket"] = list(self.bucket[-1])
        return Waiting(pending, step, timing, self)

    def _commit(self, commit: Callable, plan: Plan, sampled: Sampled) -> list[Sequence]:
        begun = self._now()
        moved = commit(plan, sampled)
        if id(plan) in self.in_flight:
            step = self._landed(plan)
            self.sampled_since = True
            step["host"].append([begun - step["at"], self._now() - begun])
            got = {seq.seq_id for seq in moved}
            works = [work for work in plan.work if work.samples]
            step["sampled"] = [token if work.seq_id in got else -1 for work, token in zip(works, sampled.next_ids, strict=False)]
        return moved

    def _texts(self) -> dict[str, str]:
        """The text of each token that was sampled, where the engine has a tokenizer."""
        tokenizer = self.engine.tokenizer
        if tokenizer is None:
            return {}
        ids = sorted({token for step in self.steps for token in step.get("sampled", ()) if token >= 0})
        return {str(token): tokenizer.decode([token]) for token in ids if token < len(tokenizer)}

    def _now(self) -> int:
        """Microseconds since the recording began."""
        return (time.perf_counter_ns() - self.begun) // 1000

    def _landed(self, plan: Plan) -> dict[str, Any]:
        """The plan's step, which is not in flight any more; nor are those before it, which an error or an abort ended."""
        while True:
            landed, step = self.in_flight.pop(next(iter(self.in_flight)))
            if landed is plan:
                return step

    def _unwrap(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _wrap(self, owner: Any, name: str, listener: Callable) -> None:
        try:
            setattr(owner, name, partial(listener, getattr(owner, name)))
        except AttributeError:
            kind = type(owner).__name__
            raise MinferError(f"{kind}.{name} cannot be recorded: the class has __slots__; give it __dict__ as well") from None
        self._undo.append(partial(delattr, owner, name))


class Waiting:
    """A step in flight: waits as the executor's own does, and notes how long."""

    def __init__(self, pending: Any, step: dict[str, Any], timing: Any, recorder: Recorder):
        self.pending, self.step, self.timing, self.recorder = pending, step, timing, recorder

    def wait(self) -> Sampled:
        begun = self.recorder._now()
        sampled = self.pending.wait()
        self.step["host"].append([begun - self.step["at"], self.recorder._now() - begun])
        device = self.recorder.device.read(self.timing)
        if device is not None:
            self.step["device"] = device
        return sampled

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pending, name)
