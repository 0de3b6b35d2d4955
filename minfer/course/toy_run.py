"""Plans of a scheduler without a model: what would be computed in which step, in milliseconds on any machine.

From: the chapters on scheduling, which draw and count with it. To: the plans of the run, as the scheduler made them. Tokens come from
the toy model of `minfer/testing/toy.py`, which also checks that what they are computed from is right.
"""

from __future__ import annotations

from collections.abc import Iterable

from minfer.blocks.paged import PagedBlocks
from minfer.params import SamplingParams
from minfer.policy.fcfs import policy
from minfer.preemption.recompute import Recompute
from minfer.testing.toy import ToyExecutor, toy_config
from minfer.types import Plan, Request, Sampling, Sequence

Arrival = tuple[int, int | list[int], int]  # (the first step that may compute it, prompt: its length or its ids, output tokens)


def plans_of(
    scheduler: type,
    arrivals: Iterable[Arrival],
    *,
    rows: int = 4,
    budget: int = 512,
    blocks: type = PagedBlocks,
    num_blocks: int = 1000,
    block_size: int = 16,
) -> list[Plan]:
    """Run the requests to their end. Sequences are numbered from 0 in order of arrival; num_blocks leaves out the padding block.

    Raises:
        RuntimeError: the scheduler plans nothing although sequences are alive.
    """
    config = toy_config(max_num_seqs=rows, max_num_batched_tokens=budget, max_model_len=10**6, block_size=block_size)
    pool = blocks(1 + num_blocks, block_size)
    part = scheduler(config, pool, policy, Recompute())
    executor = ToyExecutor(config, 1 + num_blocks, 0, block_size)
    coming = [
        (step, sequence(number, prompt, max_tokens))
        for number, (step, prompt, max_tokens) in enumerate(sorted(arrivals, key=lambda arrival: arrival[0]))
    ]
    plans: list[Plan] = []
    while coming or part.has_work():
        while coming and (coming[0][0] <= len(plans) or not part.has_work()):
            part.add(coming.pop(0)[1])
        plan = part.schedule()
        if plan is None:
            raise RuntimeError(f"{scheduler.__name__} plans nothing in step {len(plans)}, and sequences {sorted(part.live)} are alive")
        plans.append(plan)
        part.commit(plan, executor.launch(plan).wait())
    return plans


def sequence(number: int, prompt: int | list[int], max_tokens: int) -> Sequence:
    """A greedy request for exactly max_tokens tokens. A prompt given by its length has ids that no other one has."""
    ids = [1000 * (number + 1) + at for at in range(prompt)] if isinstance(prompt, int) else list(prompt)
    params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
    sampling = Sampling(params, number, (), len(ids))
    return Sequence(number, Request(str(number), tuple(ids), params), 0, sampling, ids, len(ids), len(ids) + max_tokens)


def tokens_by_step(plans: Iterable[Plan]) -> list[dict[int, int]]:
    """Of each step: sequence → the new tokens that it computes."""
    return [{work.seq_id: work.num_new for work in plan.work} for plan in plans]
