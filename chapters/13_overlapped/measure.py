"""Measures chapter 13: steps of both loops around a pretended device of known speed. Writes measured.json beside itself.

    python chapters/13_overlapped/measure.py

The scheduler, its 256 sequences and the loops are real. The device is a clock: a step is ready so many milliseconds after the one
before it, or after its launch. So what is measured is the host's time, and how much of it each loop hides. About 10 seconds.
"""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from minfer.bench.report import header, write_json
from minfer.blocks.paged import PagedBlocks
from minfer.loop.overlapped import loop as overlapped
from minfer.loop.plain import loop as plain
from minfer.params import SamplingParams
from minfer.policy.fcfs import policy
from minfer.preemption.recompute import Recompute
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.testing.toy import toy_config
from minfer.types import Plan, Request, Sampled, Sampling, Sequence

ROWS = 256
OUTPUT = 60  # tokens of each sequence
PROMPT = 4
DEVICE_MS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
LOOPS = {"plain": plain, "overlapped": overlapped}


class Clock:
    """An executor whose device does nothing, for so many milliseconds a step. Every token is a 1."""

    def __init__(self, device_ms: float):
        self.seconds = device_ms / 1e3
        self.free_at = 0.0

    def launch(self, plan: Plan) -> Ready:
        self.free_at = max(self.free_at, time.perf_counter()) + self.seconds
        return Ready(self.free_at, sum(work.samples for work in plan.work))


class Ready:
    """A step that is done at a time."""

    def __init__(self, at: float, count: int):
        self.at, self.count = at, count

    def wait(self) -> Sampled:
        while (left := self.at - time.perf_counter()) > 0:
            if left > 2e-4:
                time.sleep(left - 1e-4)
        return Sampled([1] * self.count)


def scheduler() -> ChunkedScheduler:
    """256 sequences, all of them running from the first step on."""
    config = toy_config(max_num_seqs=ROWS, max_num_batched_tokens=ROWS * PROMPT, max_model_len=128, block_size=16)
    made = ChunkedScheduler(config, PagedBlocks(2 + ROWS * 8, 16), policy, Recompute(0))
    params = SamplingParams(temperature=0, max_tokens=OUTPUT, ignore_eos=True)
    for i in range(ROWS):
        request = Request(str(i), (1,) * PROMPT, params)
        sampling = Sampling(params, 0, (), PROMPT)
        made.add(Sequence(i, request, 0, sampling, [1] * PROMPT, PROMPT, PROMPT + OUTPUT))
    return made


def step_ms(loop, device_ms: float) -> float:
    """Milliseconds from step to step, the median of those in which all sequences decode."""
    times = [time.perf_counter()]
    for _ in loop(scheduler(), Clock(device_ms)):
        times.append(time.perf_counter())
    steps = [1e3 * (after - before) for before, after in pairwise(times)]
    return median(steps[4:-4])


def main() -> None:
    steps = [{"device_ms": ms, **{name: step_ms(loop, ms) for name, loop in LOOPS.items()}} for ms in DEVICE_MS]
    report = {"kind": "chapter", **header(), "rows": ROWS, "host_ms": steps[0]["plain"], "steps": steps}
    write_json(Path(__file__).with_name("measured.json"), report)


if __name__ == "__main__":
    main()
