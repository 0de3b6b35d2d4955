"""Traffic for schedulers and what they work with: requests come, end, are aborted and give way, over the toy model of `toy.py`.

From: the suites of `scheduler`, `blocks`, `policy`, `preemption`, `loop` and `inputs`, which put the part that they are about in its
slot and draw the others. To: after every step the tokens must be those of each request on its own, and the books must balance.

What happens is a list in the case, `events`: {"prompt": [ids], ...} adds a request, {"steps": n} runs n steps, {"abort": i} and
{"preempt": i} end the i-th sequence or make it give way.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.resolve import resolve
from minfer.sample.noise import derive_seed
from minfer.scheduler.base import BaseScheduler
from minfer.testing.invariants import check_idle, check_scheduler
from minfer.testing.properties import Case, Differs, Place, expect
from minfer.testing.toy import ToyExecutor, expected, toy_config
from minfer.types import Plan, Request, Sampling, Sequence, Status

SHIPPED = {
    "scheduler": ["chunked:ChunkedScheduler", "continuous:ContinuousScheduler", "static:StaticScheduler"],
    "blocks": ["paged:PagedBlocks", "prefix:PrefixBlocks", "contiguous:ContiguousBlocks"],
    "policy": [
        f"{name}:policy" for name in ("fcfs", "priority", "shortest_prompt", "longest_prefix", "fair_share", "shortest_job")
    ],
    "preemption": ["recompute:Recompute", "swap:Swap"],
}
MAX_LEN = 24  # tokens of a sequence
LONGEST_PROMPT = 9
VOCAB = 13  # small, so that stop tokens come up
STOP_IDS = (3, 5)
MAX_STEPS = 3000  # far more than any case needs
REQUEST = {"n": 1, "max_tokens": 4, "stop": False, "min_tokens": 0, "priority": 0, "user": "a"}  # what a request leaves out


def requests() -> st.SearchStrategy[Case]:
    """A request as an event; what is as in REQUEST is left out."""
    drawn = {
        "prompt": st.lists(st.sampled_from([0, 0, 0, 1, 2]), min_size=1, max_size=LONGEST_PROMPT),  # many begin alike
        "n": st.integers(1, 3),
        "max_tokens": st.integers(1, 12),
        "stop": st.booleans(),
        "min_tokens": st.integers(0, 2),
        "priority": st.integers(-1, 1),
        "user": st.sampled_from("ab"),
    }
    return st.fixed_dictionaries(drawn).map(lambda full: {key: value for key, value in full.items() if REQUEST.get(key) != value})


def cases(place: Place, slot: str = "", ahead: bool = False, forced: bool = True, **fixed: Any) -> st.SearchStrategy[Case]:
    """Sizes, the parts of all slots but `slot`, and events.

    ahead: plan a step before the one before it is committed, as a loop does that overlaps host and device.
    forced: let running sequences give way at any time, not only where room is scarce.
    """
    sequence = st.integers(0, 9)
    single = [requests(), st.fixed_dictionaries({"steps": st.integers(1, 4)}), st.fixed_dictionaries({"abort": sequence})]
    if forced:
        single.append(st.fixed_dictionaries({"preempt": sequence}))
    events = [each.map(lambda event: [event]) for each in single]
    if forced:
        events += [sequence.map(lambda i: [{"preempt": i}, {"steps": 1}]), sequence.map(lambda i: [{"preempt": i}, {"abort": i}])]
    drawn = {
        **{name: st.sampled_from(parts) for name, parts in SHIPPED.items() if name != slot},
        "block_size": st.integers(1, 5),
        "extra_blocks": st.integers(0, 12),  # beyond what the longest prompt needs
        "rows": st.integers(1, 5),
        "budget": st.integers(1, 12),
        "host_blocks": st.integers(0, 12),
        "ahead": st.integers(0, 1) if ahead else st.just(0),
        "events": st.tuples(st.lists(requests(), min_size=1, max_size=3), st.lists(st.one_of(*events), max_size=20)).map(
            lambda drawn: [*drawn[0], *(event for some in drawn[1] for event in some)]
        ),
    }
    return st.fixed_dictionaries({**drawn, **{name: st.just(value) for name, value in fixed.items()}})


class Traffic:
    """One case, played. `parts` are those that do not come from the case, by slot."""

    def __init__(self, case: Case, **parts: Any):
        self.case = case
        parts = {slot: parts.get(slot) or resolve(slot, f"minfer.{slot}.{case[slot]}") for slot in SHIPPED}
        self.config = toy_config(
            max_num_seqs=case["rows"], max_num_batched_tokens=case["budget"], max_model_len=MAX_LEN, block_size=case["block_size"]
        )
        size = parts["blocks"].size_of_block(self.config)
        num_blocks = 1 + -(-(LONGEST_PROMPT + 1) // size) + case["extra_blocks"]
        self.blocks = parts["blocks"](num_blocks, size)
        self.scheduler = parts["scheduler"](self.config, self.blocks, parts["policy"], parts["preemption"](case["host_blocks"]))
        self.executor = self.make_executor(num_blocks, size)
        self.seqs: list[Sequence] = []
        self.flying: deque = deque()  # (plan, pending) of the steps that are not committed yet
        self.steps = 0

    def make_executor(self, num_blocks: int, block_size: int) -> ToyExecutor:
        return ToyExecutor(self.config, num_blocks, self.case["host_blocks"], block_size, VOCAB)

    def play(self) -> None:
        """All events, then on until no work is left; checks everything on the way.

        Raises:
            AssertionError: a token is wrong, the books do not balance, or it does not end.
        """
        for event in self.case["events"]:
            if "prompt" in event:
                self.add(event)
            elif "steps" in event:
                for _ in range(event["steps"]):
                    self.step_if_any()
            elif self.seqs:
                seq = self.seqs[next(iter(event.values())) % len(self.seqs)]
                self.abort(seq) if "abort" in event else self.preempt(seq)
            self.check()
        while self.step_if_any():
            self.check()
        self.check_end()

    def add(self, event: Case) -> None:
        """A request and its n sequences; left out where the engine would refuse it."""
        ask = {**REQUEST, **event}
        prompt = ask["prompt"]
        limit = min(len(prompt) + ask["max_tokens"], MAX_LEN, self.blocks.num_total * self.blocks.block_size)
        if len(prompt) >= limit:
            return
        params = SamplingParams(n=ask["n"], max_tokens=ask["max_tokens"], min_tokens=min(ask["min_tokens"], ask["max_tokens"]))
        stop_ids = STOP_IDS if ask["stop"] else ()
        request = Request(str(len(self.seqs)), tuple(prompt), params, stop_ids, 5, ask["priority"], ask["user"])
        group: list[Sequence] = []
        for index in range(ask["n"]):
            sampling = Sampling(params, derive_seed(5, index), stop_ids, len(prompt))
            parent = group[0] if group else None
            group.append(Sequence(len(self.seqs), request, index, sampling, list(prompt), len(prompt), limit, parent))
            self.seqs.append(group[-1])
        for seq in group:
            self.scheduler.add(seq)

    def abort(self, seq: Sequence) -> None:
        """Twice: the second time it has ended, and nothing may happen."""
        before = seq.finish_reason
        self.scheduler.abort(seq.seq_id)
        self.scheduler.abort(seq.seq_id)
        self.scheduler.abort(12345)
        wanted = before or "abort"
        expect(seq.finish_reason == wanted, f"sequence {seq.seq_id} to end with {wanted!r}", f"{seq.finish_reason!r}")

    def preempt(self, seq: Sequence) -> None:
        """Only a scheduler that derives from ours can be asked to."""
        if isinstance(self.scheduler, BaseScheduler) and seq.status is Status.RUNNING:
            self.scheduler._preempt(seq)

    def step_if_any(self) -> bool:
        if not self.scheduler.has_work():
            self.flying.clear()  # of sequences that have ended meanwhile
            return False
        self.steps += 1
        expect(self.steps <= MAX_STEPS, f"an end within {MAX_STEPS} steps", f"{self.describe_live()} still alive")
        self.step()
        return True

    def step(self) -> None:
        """Schedule and launch one step; commit the oldest in flight, if more than `ahead` are, or nothing could be planned."""
        plan = self.scheduler.schedule()
        if plan is None:
            expect(bool(self.flying), "a plan, since sequences are alive and no step is in flight", f"None; {self.describe_live()}")
        else:
            self.check_plan(plan)
            self.flying.append((plan, self.executor.launch(plan)))
        if plan is None or len(self.flying) > self.case["ahead"]:
            done, pending = self.flying.popleft()
            self.check_moved(self.scheduler.commit(done, pending.wait()))

    def check_plan(self, plan: Plan) -> None:
        for work in plan.work:
            end = work.start + work.num_new
            expect(
                work.num_new > 0, "each sequence of a plan to compute at least one token", f"sequence {work.seq_id} with {work.num_new}"
            )
            expect(
                not work.samples or end >= work.sampling.num_prompt,
                f"no token sampled before the prompt of {work.sampling.num_prompt} tokens is computed",
                f"sequence {work.seq_id} samples at {end}",
            )

    def check_moved(self, moved: list[Sequence]) -> None:
        for seq in moved:
            self.check_tokens(seq)

    def check_tokens(self, seq: Sequence) -> None:
        alone = self.alone(seq)
        wanted = alone[: seq.num_output]
        if seq.output_ids != wanted or seq.num_output > len(alone):
            at = next((i for i, (a, b) in enumerate(zip(seq.output_ids, wanted, strict=False)) if a != b), len(wanted))
            raise Differs(
                f"sequence {seq.seq_id} (prompt {list(seq.request.prompt_ids)}) to get the tokens that it gets alone, {alone}",
                f"{seq.output_ids}, wrong from output token {at} on, in step {self.steps}",
            )

    def alone(self, seq: Sequence) -> list[int]:
        return expected(list(seq.request.prompt_ids), seq.sampling, seq.limit, VOCAB)

    def check(self) -> None:
        """Between any two events or steps."""
        if isinstance(self.scheduler, BaseScheduler):
            check_scheduler(self.scheduler)

    def check_end(self) -> None:
        """Everything has ended, with all its tokens, and everything is given back."""
        if isinstance(self.scheduler, BaseScheduler):
            check_idle(self.scheduler)
        free, total = self.blocks.num_free, self.blocks.num_total
        expect(free == total, f"all {total} blocks free once nothing is alive", f"{free} free")
        for seq in self.seqs:
            expect(seq.finished, f"sequence {seq.seq_id} to end", f"it is {seq.status.value}")
            if seq.finish_reason != "abort":
                self.check_tokens(seq)
                expect(
                    seq.num_output == len(self.alone(seq)), f"{len(self.alone(seq))} tokens of sequence {seq.seq_id}", seq.num_output
                )

    def describe_live(self) -> str:
        live = [seq for seq in self.seqs if not seq.finished]
        return (
            ", ".join(
                f"sequence {seq.seq_id} (prompt of {seq.num_prompt}) {seq.status.value} with {seq.num_output} tokens"
                for seq in live[:4]
            )
            or "none"
        )
