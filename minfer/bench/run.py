"""One timed run of a workload on an engine, its requests all at once.

From: a Workload. To: a Run, which `bench/ladder.py`, `bench/throughput.py` and `bench/latency.py` compare.
"""

from __future__ import annotations

import time
import zlib
from array import array
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING

from minfer.bench.workload import Workload

if TYPE_CHECKING:
    from minfer.llm import LLM
    from minfer.outputs import RequestOutput

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Run:
    """What one engine made of one workload. Loading the model is not in it."""

    seconds: float  # from the first request's arrival to the last one's end
    token_ids: list[list[int]]  # output of each request
    texts: list[str] = field(default_factory=list)  # of each request, where the engine makes text
    first_token_s: list[float] = field(default_factory=list)  # arrival to first token of each request, where it is known
    later_token_s: list[float] = field(default_factory=list)  # mean time of a later token, of each request that has two or more
    gap_s: list[float] = field(default_factory=list)  # time from each token to the next one, where tokens were streamed
    steps: int = 0
    preemptions: int = 0

    @property
    def output_tokens(self) -> int:
        return sum(len(ids) for ids in self.token_ids)

    @property
    def tokens_per_s(self) -> float:
        return self.output_tokens / self.seconds

    @property
    def ttft_ms(self) -> float | None:
        """Mean time to first token."""
        return 1e3 * fmean(self.first_token_s) if self.first_token_s else None

    def num_equal(self, other: Run) -> int:
        """How many requests got the same tokens in both."""
        return sum(mine == theirs for mine, theirs in zip(self.token_ids, other.token_ids, strict=True))

    @property
    def token_digests(self) -> list[int]:
        """A number for each request's tokens; the same number, the same tokens."""
        return [zlib.crc32(array("q", ids).tobytes()) for ids in self.token_ids]

    def describe(self) -> dict:
        """For a report."""
        spread = {"ttft_ms": self.first_token_s, "tpot_ms": self.later_token_s, "itl_ms": self.gap_s}
        return {
            "seconds": self.seconds,
            "output_tokens": self.output_tokens,
            "tokens_per_s": self.tokens_per_s,
            "ttft_ms": self.ttft_ms,
            "percentiles": {name: percentiles(values) for name, values in spread.items() if values},
            "steps": self.steps,
            "preemptions": self.preemptions,
        }


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Of times in seconds, in milliseconds: {"p50": ..., "p90": ..., "p99": ...}, linear between two neighbours."""
    import numpy

    return {f"p{p}": 1e3 * float(numpy.percentile(seconds, p)) for p in PERCENTILES}


def median_run(runs: list[Run]) -> Run:
    """The run whose speed is the median; of two in the middle the slower one."""
    return sorted(runs, key=lambda run: run.tokens_per_s)[(len(runs) - 1) // 2]


def median_speed(runs: list[Run]) -> float:
    """Output tokens a second."""
    return median(run.tokens_per_s for run in runs)


def run_workload(llm: LLM, workload: Workload) -> Run:
    """Give all requests to the engine at once, and wait until the last has ended."""
    before = llm.stats()
    start = time.perf_counter()
    outputs = llm.generate(workload.prompts, workload.params(), progress=False)
    seconds = time.perf_counter() - start
    after = llm.stats()
    return Run(
        seconds,
        [output.outputs[0].token_ids for output in outputs],
        [output.outputs[0].text for output in outputs],
        [output.metrics.time_to_first_token for output in outputs],
        [each for output in outputs if (each := later_token(output)) is not None],
        steps=after.num_steps - before.num_steps,
        preemptions=after.num_preemptions - before.num_preemptions,
    )


def later_token(output: RequestOutput) -> float | None:
    """Mean seconds of a token after the first; None where there is none."""
    count = len(output.outputs[0].token_ids) - 1
    return (output.metrics.finished_time - output.metrics.first_token_time) / count if count > 0 else None


def warm_up(llm: LLM, workload: Workload) -> Workload:
    """What to run before the workload is timed. The ids are others, so that no cache answers the timed run.

    On a GPU it has the workload's shapes, since kernels are compiled for a shape when they first meet it; on a CPU, two short
    requests are enough.
    """
    requests, tokens = (len(workload.prompts), None) if llm.config.device.type == "cuda" else (2, 8)
    vocab_size = llm.config.model.vocab_size
    prompts = [[(token + vocab_size - 1) % vocab_size for token in prompt[:tokens]] for prompt in workload.prompts[:requests]]
    max_tokens = [min(n, tokens or n) for n in workload.max_tokens[:requests]]
    return Workload("warm-up", prompts, max_tokens, workload.ignore_eos, temperature=workload.temperature)
