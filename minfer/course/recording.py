"""A run step by step, as the notebooks draw it: a view on a trace, which `minfer.trace` records.

From: an LLM that is recorded while it runs. To: the notebooks' plots, `plots.py`.

    with record(llm) as steps:
        llm.generate(prompts, params)
    steps[0].work, steps[0].running, steps[0].waiting, steps[0].seconds
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minfer import trace as traces
from minfer.params import SamplingParams
from minfer.trace.replay import Task, sampled

if TYPE_CHECKING:
    from minfer.llm import LLM, Prompt


@dataclass(frozen=True, slots=True)
class Seen:
    """A running sequence as the plan left it."""

    seq_id: int
    num_prompt: int
    num_computed: int  # with this step's
    blocks: tuple[int, ...]  # its block table


@dataclass(frozen=True, slots=True)
class Step:
    """One step. Times are in seconds from the start of the recording."""

    number: int  # the engine's own, from its beginning on
    work: list[Task]
    running: dict[int, Seen]  # by seq_id
    waiting: tuple[int, ...]  # seq_ids
    num_free: int  # blocks
    begun: float  # when it was planned
    ended: float | None  # when its tokens were committed; None: it was not
    sampled: tuple[int, ...]  # seq_ids of those that got a token

    @property
    def num_new(self) -> int:
        """Tokens that the step computes, of all sequences."""
        return sum(task.num_new for task in self.work)

    @property
    def seconds(self) -> float:
        """From its plan to its commit; with a loop that overlaps steps, more than its share of the time.

        Raises:
            ValueError: it has not been committed.
        """
        if self.ended is None:
            raise ValueError(f"step {self.number} has not been committed; read its time when the run has ended")
        return self.ended - self.begun


def steps_of(trace: traces.Trace) -> list[Step]:
    """The trace's steps."""
    sequences = trace.sequences
    return [_step(sequences, frame) for frame in trace.frames() if "step" in frame.entry]


@contextmanager
def record(llm: LLM) -> Iterator[list[Step]]:
    """Listen to an LLM → its steps, a list that is filled when the `with` ends. Works with every scheduler and every loop."""
    steps: list[Step] = []
    with traces.record(llm) as recording:
        try:
            yield steps
        finally:
            steps += steps_of(recording.trace)


def play(llm: LLM, arrivals: Iterable[tuple[int, Prompt, int]]) -> list[Step]:
    """Run requests that arrive before a given step, as `drive` does → the steps.

    Sequences are numbered on from those that the engine has had; a fresh one begins with 0, in order of arrival.
    """
    with record(llm) as steps:
        drive(llm, arrivals)
    return steps


def drive(llm: LLM, arrivals: Iterable[tuple[int, Prompt, int | SamplingParams]], names: Iterable[str] | None = None) -> None:
    """(step, prompt, max_tokens or parameters) each; a number means greedy, and never ended by EOS.

    names: of the requests, in the order in which they arrive.
    """
    waiting = sorted(arrivals, key=lambda arrival: arrival[0])
    first = llm.stats().num_steps
    ids = iter(names or (f"arrival-{i}" for i in itertools.count()))
    while waiting or llm.has_unfinished():
        while waiting and (waiting[0][0] <= llm.stats().num_steps - first or not llm.has_unfinished()):
            _, prompt, params = waiting.pop(0)
            if not isinstance(params, SamplingParams):
                params = SamplingParams(temperature=0, max_tokens=params, ignore_eos=True)
            llm.add_request(next(ids), prompt, params)
        llm.step()


def _step(sequences: dict[int, dict[str, Any]], frame: traces.Frame) -> Step:
    entry = frame.entry
    times = entry.get("host", ())  # of schedule, launch, wait, commit
    running = {
        seq: Seen(seq, sequences[seq]["num_prompt"], frame.computed.get(seq, 0), tuple(frame.tables.get(seq, ())))
        for seq in frame.running
    }
    return Step(
        entry["step"],
        frame.work,
        running,
        tuple(frame.waiting),
        frame.num_free,
        entry["at"] / 1e6,
        (entry["at"] + sum(times[3])) / 1e6 if len(times) == 4 else None,
        tuple(seq for seq, _ in sampled(frame.work, entry)),
    )
