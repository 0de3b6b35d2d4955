"""Tokens a second: minfer beside transformers' `generate`, in one process and by turns, on a batch and on one request alone.

From: `minfer bench throughput`. To: its table and its report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from minfer.bench.arrivals import poisson, run_arrivals
from minfer.bench.hf_generate import HFGenerate
from minfer.bench.run import Run, median_speed, run_workload, warm_up
from minfer.bench.workload import Range, Workload, mixed
from minfer.llm import LLM


@dataclass(frozen=True)
class Contest:
    """One kind of workload: minfer's runs, and transformers' runs of the same workloads (none without a baseline)."""

    name: str
    workloads: list[Workload]
    ours: list[Run] = field(default_factory=list)
    theirs: list[Run] = field(default_factory=list)

    @property
    def our_speed(self) -> float:
        """Median, in tokens a second."""
        return median_speed(self.ours)

    @property
    def their_speed(self) -> float | None:
        """Median, in tokens a second; of the tokens that were asked for."""
        return median_speed(self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        """How many times faster than transformers."""
        return self.our_speed / self.their_speed if self.theirs else None

    @property
    def ttft_ms(self) -> float:
        """minfer's time to first token: mean over a run's requests, median over the runs."""
        return median(run.ttft_ms for run in self.ours)

    @property
    def equal_share(self) -> float | None:
        """Share of the requests that got the same tokens from both."""
        if not self.theirs:
            return None
        equal = sum(mine.num_equal(other) for mine, other in zip(self.ours, self.theirs, strict=True))
        return equal / sum(len(workload.prompts) for workload in self.workloads)

    def describe(self) -> dict:
        """For a report."""
        return {
            "name": self.name,
            "workloads": [workload.describe() for workload in self.workloads],
            "minfer": {"tokens_per_s": self.our_speed, "repeats": [run.describe() for run in self.ours]},
            "transformers": {"tokens_per_s": self.their_speed, "repeats": [run.describe() for run in self.theirs]}
            if self.theirs
            else None,
            "ratio": self.ratio,
            "equal_share": self.equal_share,
        }


def throughput(
    llm: LLM,
    requests: int,
    prompt_len: Range,
    output_len: Range,
    repeats: int,
    seed: int,
    batch_size: int | None = 8,
    announce: Callable[[str], None] = lambda text: None,
) -> list[Contest]:
    """The batch, then one request alone (its lengths are the middles of the ranges), `repeats` times each.

    Each repeat has prompts of its own, so that no cache answers it, and both sides run it one right after the other.

    Args:
        batch_size: of transformers' static batches; None leaves transformers out.
        announce: called with a line of progress before each repeat.
    """
    vocab_size, max_len = llm.config.model.vocab_size, llm.engine.max_len
    middle = [(sum(each) // 2,) * 2 for each in (prompt_len, output_len)]
    seeds = [seed + repeat for repeat in range(repeats)]
    contests = [
        Contest("batch", [mixed(requests, prompt_len, output_len, vocab_size, max_len, each) for each in seeds]),
        Contest("alone", [mixed(1, *middle, vocab_size, max_len, each, "alone") for each in seeds]),
    ]
    announce("loading and warming up")
    baseline = HFGenerate(llm.config.path, llm.config.dtype, llm.config.device) if batch_size else None
    first = warm_up(llm, contests[0].workloads[0])
    run_workload(llm, first)
    if baseline:
        baseline.run(first, batch_size)
    for repeat in range(repeats):
        announce(f"repeat {repeat + 1} of {repeats}")
        for contest in contests:
            contest.ours.append(run_workload(llm, contest.workloads[repeat]))
            if baseline:
                contest.theirs.append(baseline.run(contest.workloads[repeat], batch_size))
    return contests


def repeat_workload(
    llm: LLM,
    workload: Workload,
    repeats: int,
    rate: float | None = None,
    announce: Callable[[str], None] = lambda text: None,
) -> list[Run]:
    """The same workload several times, after a warm-up; ids differ from repeat to repeat, lengths do not.

    Args:
        rate: requests a second, by a Poisson process; None: all at once.
        announce: called with a line of progress before each repeat.
    """
    announce("warming up")
    run_workload(llm, warm_up(llm, workload))
    runs = []
    for repeat in range(repeats):
        announce(f"repeat {repeat + 1} of {repeats}")
        shifted = workload.shifted(repeat, llm.config.model.vocab_size)
        due = None if rate is None else poisson(len(shifted.prompts), rate, seed=repeat)
        runs.append(run_workload(llm, shifted) if due is None else run_arrivals(llm, shifted, due))
    return runs
