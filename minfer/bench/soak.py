"""Hours of work in a small space: requests of every kind come, give way, end and are aborted, and each must get its own tokens.

From: an engine with little room for K/V, and the cases of `bench/soak_requests.py`. To: `minfer bench soak`, as a Tally.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from minfer.bench.soak_requests import Case
from minfer.llm import LLM
from minfer.outputs import RequestOutput

KEPT = 20  # faults that are described
BURST = 5  # requests that come at once, at most
ROUND = 300  # requests between two times at which everything must have been given back


@dataclass
class Tally:
    """What has happened so far."""

    seconds: float = 0.0
    finished: int = 0
    aborted: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # of prompts, found in the K/V cache
    steps: int = 0
    preemptions: int = 0
    idle_checks: int = 0
    mismatches: int = 0
    leaked_blocks: int = 0
    errors: int = 0  # a step that raised; the soak ends with it
    faults: list[str] = field(default_factory=list)

    @property
    def well(self) -> bool:
        return not self.mismatches and not self.leaked_blocks and not self.errors

    def describe(self) -> dict:
        """For a report."""
        return {**asdict(self), "well": self.well}

    def line(self) -> str:
        """For a terminal."""
        return (
            f"{self.seconds:.0f} s: {self.finished} requests finished, {self.aborted} aborted, {self.output_tokens} tokens, "
            f"{self.steps} steps, {self.preemptions} preemptions, {self.mismatches} mismatches, "
            f"{self.leaked_blocks} blocks leaked, {self.errors} errors"
        )


class Soak:
    """One engine under random traffic. The same seed makes the same traffic, as long as the engine takes as many steps."""

    def __init__(self, llm: LLM, cases: list[Case], seed: int = 0):
        self.llm, self.cases = llm, cases
        self.random = random.Random(seed)
        self.tally = Tally()
        self.live: dict[str, Case] = {}
        self.added = 0

    def run(
        self,
        seconds: float,
        steps: float = math.inf,
        every: float = 60.0,
        announce: Callable[[str], None] = lambda line: None,
    ) -> Tally:
        """Let requests come for so many seconds or steps, and go on until the last has ended; no further than KEPT faults.

        Args:
            every: seconds between two lines of progress.
            announce: called with each.
        """
        start = time.monotonic()
        told, going = start, True
        before = self.llm.stats()
        while (going or self.live) and len(self.tally.faults) < KEPT:
            now = time.monotonic()
            going = now - start < seconds and self.llm.stats().num_steps - before.num_steps < steps
            if now - told >= every:
                told = now
                announce(self._count(now - start, before).line())
            try:
                self._round() if going else self._drain()
            except Exception as error:  # of any part
                self.tally.errors += 1
                self._note(f"step {self.llm.stats().num_steps - before.num_steps}: {type(error).__name__}: {error}")
                break
        return self._count(time.monotonic() - start, before)

    def _count(self, seconds: float, before) -> Tally:
        stats = self.llm.stats()
        self.tally.seconds = seconds
        self.tally.steps, self.tally.preemptions = stats.num_steps - before.num_steps, stats.num_preemptions - before.num_preemptions
        return self.tally

    def _round(self) -> None:
        """A step, with what happens before it. After each ROUND of requests the engine is left to come to rest."""
        if self.added >= ROUND:
            self._drain()
            self.added = 0
        most = 4 * self.llm.config.max_num_seqs
        if len(self.live) < most and self.random.random() < 0.4:
            for _ in range(self.random.randint(1, BURST)):
                self._add()
        if self.live and self.random.random() < 0.05:
            self._abort(self.random.choice(list(self.live)))
        self._step()

    def _drain(self) -> None:
        while self.live:
            self._step()
        self._check_idle()

    def _add(self) -> None:
        case = self.random.choice(self.cases)
        name = f"soak-{self.tally.finished + self.tally.aborted + len(self.live)}"
        options = {"priority": self.random.randint(-2, 2), "user": self.random.choice("abc"), "stream": self.random.random() < 0.3}
        self.llm.add_request(name, case.prompt, case.params, **options)
        self.live[name] = case
        self.added += 1

    def _abort(self, name: str) -> None:
        output = self.llm.abort(name)
        case = self.live.pop(name)
        self.tally.aborted += 1
        self._judge(name, "no output of an aborted request" if output is None else case.wrong_so_far(output))

    def _step(self) -> None:
        for output in self.llm.step():
            self._take(output)

    def _take(self, output: RequestOutput) -> None:
        name = output.request_id
        case = self.live.get(name)
        if case is None:
            self._judge(name, "an output after its end")
        elif output.finished:
            del self.live[name]
            self.tally.finished += 1
            self.tally.output_tokens += sum(len(completion.token_ids) for completion in output.outputs)
            self.tally.cached_tokens += output.num_cached_tokens
            self._judge(name, case.wrong_at_end(output))
        else:
            self._judge(name, case.wrong_so_far(output))

    def _judge(self, name: str, wrong: str | None) -> None:
        if wrong is not None:
            self.tally.mismatches += 1
            self._note(f"{name}: {wrong}")

    def _check_idle(self) -> None:
        """Nothing is alive: every block must be free, and the scheduler's books must balance."""
        from minfer.scheduler.base import BaseScheduler
        from minfer.testing.invariants import check_idle

        self.tally.idle_checks += 1
        stats = self.llm.stats()
        leaked = stats.num_total_blocks - stats.num_free_blocks
        if leaked or self.llm.has_unfinished():
            self.tally.leaked_blocks += max(1, leaked)
            self._note(f"at rest after {self.tally.finished} requests, {leaked} blocks are not free")
        elif isinstance(self.llm.engine.scheduler, BaseScheduler):
            try:
                check_idle(self.llm.engine.scheduler)
            except AssertionError as error:
                self.tally.leaked_blocks += 1
                self._note(str(error))

    def _note(self, fault: str) -> None:
        if len(self.tally.faults) < KEPT:
            self.tally.faults.append(fault)
