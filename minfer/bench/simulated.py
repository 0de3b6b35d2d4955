"""A real scheduler on a pretended device: a step takes as long as a formula says, so a run of minutes is over in a second.

From: jobs that are due at given times. To: when each got its tokens, the same on every machine; the chapter on serving measures so.

The formula is that of a roofline: reading the weights and computing the tokens overlap, and the longer one counts. What attention and
the host cost is left out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence as Many
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from minfer.blocks.paged import PagedBlocks
from minfer.params import SamplingParams
from minfer.policy import fcfs
from minfer.preemption.recompute import Recompute
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.testing.toy import toy_config
from minfer.types import Plan, Request, Sampled, Sampling, Sequence

BLOCK_SIZE = 16


class Device(NamedTuple):
    """weights_ms: to read all weights once; token_ms: to compute one token."""

    weights_ms: float = 4.0
    token_ms: float = 0.02

    def step_ms(self, plan: Plan) -> float:
        return max(self.weights_ms, self.token_ms * sum(work.num_new for work in plan.work))


class Job(NamedTuple):
    """A request: when it is due, in ms; tokens of its prompt; tokens that it gets."""

    due: float
    prompt: int
    output: int


@dataclass
class Times:
    """When a job got its tokens, in ms; the first entry belongs to its first token."""

    job: Job
    tokens: list[float] = field(default_factory=list)

    @property
    def ttft(self) -> float:
        """From when it was due to its first token."""
        return self.tokens[0] - self.job.due

    @property
    def gaps(self) -> list[float]:
        return [after - before for before, after in pairwise(self.tokens)]


def simulate(
    jobs: Many[Job],
    *,
    scheduler=ChunkedScheduler,
    policy=fcfs.policy,
    device: Device = Device(),  # noqa: B008
    rows: int = 64,
    budget: int = 512,
    num_blocks: int = 100_000,
) -> list[Times]:
    """Run all jobs, in the order of their due times → their times, in the same order.

    Args:
        rows: sequences that run at once; budget: tokens of a step; num_blocks: blocks of the K/V cache, BLOCK_SIZE tokens each.
    """
    longest = max(job.prompt + job.output for job in jobs)
    config = toy_config(max_num_seqs=rows, max_num_batched_tokens=budget, max_model_len=longest, block_size=BLOCK_SIZE)
    books = scheduler(config, PagedBlocks(num_blocks + 1, BLOCK_SIZE), policy, Recompute(0))
    times = [Times(job) for job in jobs]
    waiting, now = 0, 0.0
    while waiting < len(jobs) or books.has_work():
        if not books.has_work():
            now = max(now, jobs[waiting].due)
        while waiting < len(jobs) and jobs[waiting].due <= now:
            books.add(sequence(waiting, jobs[waiting]))
            waiting += 1
        plan = books.schedule()
        if plan is None:  # everybody gave way, and is admitted in the next step
            continue
        now += device.step_ms(plan)
        for moved in books.commit(plan, Sampled([0] * sum(work.samples for work in plan.work))):
            times[moved.seq_id].tokens.append(now)
    return times


def sequence(seq_id: int, job: Job) -> Sequence:
    """As the engine would make it."""
    params = SamplingParams(temperature=0, max_tokens=job.output, ignore_eos=True)
    request = Request(str(seq_id), (0,) * job.prompt, params, arrival=job.due)
    return Sequence(seq_id, request, 0, Sampling(params, 0, (), job.prompt), [0] * job.prompt, job.prompt, job.prompt + job.output)


def arrivals(count: int, rate: float, *, long_share: float = 0.1, seed: int = 0) -> list[Job]:
    """A Poisson process of `rate` jobs a second. Most are short questions; a share of them are documents to be worked through.

    Prompts are 16 to 256 tokens with 16 to 128 of output; of the long ones, 1,000 to 4,000 with 200 to 400.
    """
    rng = random.Random(seed)
    jobs, due = [], 0.0
    for _ in range(count):
        due += 1e3 * rng.expovariate(rate)
        prompt, output = ((1000, 4000), (200, 400)) if rng.random() < long_share else ((16, 256), (16, 128))
        jobs.append(Job(due, rng.randint(*prompt), rng.randint(*output)))
    return jobs
