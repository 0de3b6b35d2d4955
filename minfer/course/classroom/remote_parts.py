"""The proxies of parts, by slot: what each tells the submission's process, and what it keeps here.

From: `grading.py` gives one to a suite in place of a part. To: `remote.py` makes requests of its calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch

from minfer.course.chapter import Chapter
from minfer.course.classroom.frames import WireError
from minfer.course.classroom.outside import blocks_state
from minfer.course.classroom.process import Process
from minfer.course.classroom.remote import Remote, RemoteClass, RemoteFunction
from minfer.course.classroom.remote_policy import RemotePolicy
from minfer.course.classroom.wire import Handle
from minfer.errors import PartError
from minfer.testing.properties import Differs
from minfer.types import Batch, Bucket, Copy, Plan, Sampled, Sequence, Status, StepResult

RUNNER = ("max_model_len", "max_num_seqs", "graph_sizes", "record_random", "block_size", "max_num_batched_tokens")
INPUTS = ("max_model_len", "max_num_seqs", "block_size", "max_num_batched_tokens", "model", "device")


class RemoteBlocks(RemoteClass):
    """Sequences are told to the part and heard from it at each call; its counters come with each answer."""

    copies: list[Copy]

    def make(self, num_blocks: int, block_size: int) -> None:
        self.ask("make", "blocks", num_blocks, block_size)

    def size_of_block(self, config: SimpleNamespace) -> int:
        return self.ask("static", "blocks", "size_of_block", config)

    def take(self, answer: dict) -> None:
        state = answer.get("blocks", {})
        if "copies" in state:
            self.copies = [Copy(*copy) for copy in state.pop("copies")]
        self.__dict__.update({name: state[name] for name in ("num_free", "num_total", "block_size", "_free", "refs") if name in state})

    def method(self, name: str, *args: Any) -> Any:
        return self.ask("blocks_method", self.copies, name, *args)

    def lookup(self, seq: Sequence) -> int:
        return self.method("lookup", seq)

    def match(self, seq: Sequence) -> int:
        return self.method("match", seq)

    def allocate(self, seq: Sequence, num_tokens: int, keep: int = 0) -> bool:
        return self.method("allocate", seq, num_tokens, keep)

    def commit(self, seq: Sequence) -> None:
        self.method("commit", seq)

    def free(self, seq: Sequence) -> None:
        self.method("free", seq)


class RemoteScheduler(RemoteClass):
    """The blocks stay here, and the part asks for them. What was sampled, and who gave way, is counted here."""

    def make(self, config: SimpleNamespace, blocks: Any, policy: Any, preemption: Any) -> None:
        self.blocks, self.num_steps, self.num_preemptions = blocks, 0, 0
        self.plans: dict[int, tuple[int, Plan]] = {}  # id of the plan → its number there
        self.rows: dict[int, Sequence] = {}
        self.preemptions: dict[int, int] = {}
        names = f"{policy.__module__}:{policy.__qualname__}", f"{type(preemption).__module__}:{type(preemption).__qualname__}"
        self.call("make_scheduler", config, blocks_state(blocks), *names, getattr(preemption, "num_host_blocks", 0))

    def call(self, do: str, *args: Any) -> Any:
        try:
            return self.ask(do, *args, asked=self.blocks_asked)
        finally:
            for seq in self.process.mirrors.sequences.values():
                seq.num_preemptions = self.preemptions.get(seq.seq_id, 0)

    def blocks_asked(self, name: str, args: list) -> tuple:
        verb, (copies, *args) = name.removeprefix("blocks."), args
        if verb not in ("lookup", "match", "allocate", "commit", "free") or not all(isinstance(each, Sequence | int) for each in args):
            raise WireError(f"no question: {name}")
        self.blocks.copies[:] = [Copy(str(kind), int(src), int(dst)) for kind, src, dst in copies]
        result = getattr(self.blocks, verb)(*args)
        return result, blocks_state(self.blocks)

    def add(self, seq: Sequence) -> None:
        self.call("method", "add", seq)

    def abort(self, seq_id: int, reason: str = "abort") -> None:
        self.call("method", "abort", seq_id, reason)

    def has_work(self) -> bool:
        return self.call("method", "has_work")

    def schedule(self) -> Plan | None:
        number, plan = self.call("schedule")
        if plan is None:
            return None
        if not isinstance(plan, Plan):
            raise Differs("schedule to give a Plan or None", repr(plan))
        known = {seq.seq_id: seq for seq in self.process.mirrors.sequences.values()}
        for row in plan.freed_rows:
            seq = self.rows.pop(row, None)
            if seq is not None and not seq.finished:
                self.preemptions[seq.seq_id] = self.preemptions.get(seq.seq_id, 0) + 1
                self.num_preemptions += 1
        if any(work.seq_id not in known for work in plan.work):
            raise Differs(f"works of sequences that were added, {sorted(known)}", [work.seq_id for work in plan.work])
        self.rows.update({work.row: known[work.seq_id] for work in plan.work})
        works = [work._replace(sampling=known[work.seq_id].sampling) for work in plan.work]
        plan = Plan(plan.step, works, plan.freed_rows, plan.copies)
        self.plans[id(plan)] = number, plan
        self.num_steps += 1
        return plan

    def commit(self, plan: Plan, sampled: Sampled) -> list[Sequence]:
        mirrors = self.process.mirrors
        numbers = {seq.seq_id: number for number, seq in mirrors.sequences.items() if seq.status is not Status.FINISHED}
        sampling = [work.seq_id for work in plan.work if work.samples]
        mirrors.sampled = {numbers[each]: token for each, token in zip(sampling, sampled.next_ids, strict=True) if each in numbers}
        moved = self.call("commit", self.plans[id(plan)][0], sampled)
        mirrors.sampled = {}
        if not isinstance(moved, list) or not all(isinstance(seq, Sequence) for seq in moved):
            raise Differs("commit to give a list of the sequences that got a token", repr(moved))
        return moved


class RemoteLoop(Remote):
    """The scheduler and the executor stay here; plans, steps and sequences are numbers there."""

    def __call__(self, scheduler: Any, executor: Any) -> Iterator[list]:
        self.forget()
        objects: list[Any] = []

        def handle(value: Any) -> Any:
            if value is None or isinstance(value, bool):
                return value
            if isinstance(value, list):
                return [handle(each) for each in value]
            objects.append(value)
            return Handle(len(objects) - 1)

        def real(value: Any) -> Any:
            if isinstance(value, Handle):
                return objects[value.number]
            return [real(each) for each in value] if isinstance(value, list) else value

        calls = {
            "scheduler.has_work": lambda: scheduler.has_work(),
            "scheduler.schedule": lambda: scheduler.schedule(),
            "scheduler.commit": lambda plan, sampled: scheduler.commit(plan, sampled),
            "executor.launch": lambda plan: executor.launch(plan),
            "pending.wait": lambda pending: pending.wait(),
        }

        def asked(name: str, args: list) -> Any:
            return handle(calls[name](*map(real, args)))

        self.ask("make_loop", scheduler is not None, executor is not None, asked=asked)
        while (came := self.ask("next", asked=asked)) != []:
            moved = real(came[0])
            if not isinstance(moved, list):
                raise Differs("lists of the sequences that moved", repr(moved))
            yield moved


class RemoteInputs(RemoteClass):
    """Batches that come from the part stay there too, and go back by number."""

    def make(self, config: SimpleNamespace, block_size: int) -> None:
        self.kept: dict[int, tuple[int, Any]] = {}
        self.ask("make", "inputs", SimpleNamespace(**{name: getattr(config, name) for name in INPUTS}), block_size)

    def method(self, name: str, *args: Any) -> Any:
        theirs = [("kept", self.kept[id(each)][0]) if id(each) in self.kept else each for each in args]
        number, value = self.ask("inputs_method", name, *theirs)
        self.kept[id(value)] = number, value
        return value

    def build(self, plan: Plan) -> Batch:
        return self.method("build", plan)

    def send(self, batch: Batch | None, bucket: Bucket | None = None) -> Batch:
        return self.method("send", batch, bucket)

    def expand(self, batch: Batch) -> Batch:
        return self.method("expand", batch)

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        self.method("feed_back", batch, next_ids)


class RemoteRunner(RemoteClass):
    """The model is made there from the same seed; cache and inputs here get what the part did to theirs."""

    def make(self, model: Any, kv: list, inputs: Any, sample: Any, config: SimpleNamespace) -> None:
        self.kv, self.inputs = kv, inputs
        sizes = SimpleNamespace(**{name: getattr(config, name) for name in RUNNER})
        self.ask("make_runner", sizes, kv, config.device.type == "cuda")

    def warm_up(self) -> None:
        """Done there already."""

    def run(self, batch: Batch) -> StepResult:
        result, times, fed, kv = self.ask("run", batch, self.inputs.hidden, self.kv)
        for mine, theirs in zip(self.kv, kv, strict=True):
            for cache, value in zip(mine, theirs, strict=True):
                cache.copy_(value)
        self.inputs.times_fed.copy_(times)
        self.inputs.fed.copy_(fed)
        if not isinstance(result, StepResult):
            raise Differs("run to give a StepResult", repr(result))
        return result


PROXIES: dict[str, type[Remote]] = {
    **dict.fromkeys(("norm", "write_kv", "attention", "activation", "linear", "sample"), RemoteFunction),
    "blocks": RemoteBlocks, "scheduler": RemoteScheduler, "loop": RemoteLoop, "inputs": RemoteInputs, "runner": RemoteRunner,
    "policy": RemotePolicy,
}  # fmt: skip


def ungradable(chapter: Chapter) -> str | None:
    """Why a chapter cannot be graded in the walls of the grader; None if it can."""
    slots = [slot for slot in chapter.part if slot not in PROXIES]
    if not slots:
        return None
    return (
        f"parts for the slot {', '.join(slots)} cannot be graded here, where a submission has neither processes nor a network; "
        f"`minfer check {chapter.id}` checks them, on the student's own machine"
    )


def remote(process: Process, slot: str) -> Remote:
    """The proxy of a submitted part.

    Raises:
        PartError: parts of this slot cannot be graded.
    """
    if slot not in PROXIES:
        raise PartError(f"parts for the slot {slot} cannot be graded; those for {', '.join(PROXIES)} can")
    return PROXIES[slot](process, slot)

