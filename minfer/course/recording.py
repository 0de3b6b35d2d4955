"""What a run decided, step by step: who computed which tokens, who held which blocks, who waited, and how long it took.

From: any engine, whose scheduler is listened to while it runs. To: the notebooks, which draw it with `plots.py`.

    with record(llm) as steps:
        llm.generate(prompts, params)
    steps[0].work, steps[0].running, steps[0].waiting, steps[0].seconds
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minfer.params import SamplingParams
from minfer.types import Plan, Work

if TYPE_CHECKING:
    from minfer.llm import LLM, Prompt


@dataclass(frozen=True, slots=True)
class Seen:
    """A running sequence as the plan left it."""

    seq_id: int
    num_prompt: int
    num_tokens: int  # known ones, prompt and output
    num_computed: int  # with this step's
    num_cached: int  # prompt tokens that it found in the cache when it was admitted
    blocks: tuple[int, ...]  # its block table


@dataclass(slots=True)
class Step:
    """One step. Times are in seconds from the start of the recording."""

    plan: Plan
    running: dict[int, Seen]  # by seq_id
    waiting: tuple[int, ...]  # seq_ids
    num_free: int  # blocks
    begun: float  # when it was planned
    ended: float | None = None  # when its tokens were committed; None: not yet, or it failed
    sampled: tuple[int, ...] = ()  # seq_ids of those that got a token
    finished: tuple[int, ...] = field(default=())  # seq_ids of those that ended with it

    @property
    def work(self) -> list[Work]:
        return self.plan.work

    @property
    def num_new(self) -> int:
        """Tokens that the step computes, of all sequences."""
        return sum(work.num_new for work in self.plan.work)

    @property
    def seconds(self) -> float:
        """From its plan to its commit; with a loop that overlaps steps, more than its share of the time.

        Raises:
            ValueError: it has not been committed.
        """
        if self.ended is None:
            raise ValueError(f"step {self.plan.step} has not been committed; read its time when the run has ended")
        return self.ended - self.begun


@contextmanager
def record(llm: LLM) -> Iterator[list[Step]]:
    """Listen to an LLM's scheduler → its steps, a list that grows while it runs. Works with every scheduler and every loop."""
    scheduler = llm.engine.scheduler
    schedule, commit = scheduler.schedule, scheduler.commit
    start = time.perf_counter()
    steps: list[Step] = []
    in_flight: dict[int, Step] = {}

    def listen_to_schedule() -> Plan | None:
        begun = time.perf_counter() - start
        plan = schedule()
        if plan is not None:
            running = {seq.seq_id: _seen(seq) for seq in scheduler.running}
            waiting = tuple(seq.seq_id for seq in scheduler.waiting)
            steps.append(Step(plan, running, waiting, scheduler.blocks.num_free, begun))
            in_flight[plan.step] = steps[-1]
        return plan

    def listen_to_commit(plan: Plan, sampled) -> list:
        moved = commit(plan, sampled)
        step = in_flight.pop(plan.step, None)
        if step is not None:
            step.ended = time.perf_counter() - start
            step.sampled = tuple(seq.seq_id for seq in moved)
            step.finished = tuple(seq.seq_id for seq in moved if seq.finished)
        return moved

    scheduler.schedule, scheduler.commit = listen_to_schedule, listen_to_commit
    try:
        yield steps
    finally:
        del scheduler.schedule, scheduler.commit  # what its class has comes to light again


def play(llm: LLM, arrivals: Iterable[tuple[int, Prompt, int]]) -> list[Step]:
    """Run requests that arrive before a given step: (step, prompt, max_tokens) each → the steps. Greedy, and never ended by EOS.

    Sequences are numbered on from those that the engine has had; a fresh one begins with 0, in order of arrival.
    """
    waiting = sorted(arrivals, key=lambda arrival: arrival[0])
    with record(llm) as steps:
        while waiting or llm.has_unfinished():
            while waiting and (waiting[0][0] <= len(steps) or not llm.has_unfinished()):
                _, prompt, max_tokens = waiting.pop(0)
                params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
                llm.add_request(f"arrival-{len(waiting)}", prompt, params)
            llm.step()
    return steps


def _seen(seq) -> Seen:
    return Seen(seq.seq_id, seq.num_prompt, seq.num_tokens, seq.num_computed, seq.num_cached, tuple(seq.block_table))
