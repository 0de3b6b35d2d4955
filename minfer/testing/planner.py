"""Plans such as a scheduler makes, step after step, and what each batch made of them must be.

From: the cases of `suites/inputs.py`. To: the same, which gives the plans to the part that it checks.
"""

from __future__ import annotations

import random

from minfer.params import SamplingParams
from minfer.testing.properties import Case
from minfer.types import Plan, Sampling, Work

VOCAB = 50
MAX_LEN = 24
NUM_ROWS = 4
PARAMS = {
    "greedy": SamplingParams(temperature=0),
    "random": SamplingParams(temperature=0.7, seed=3),
    "filtered": SamplingParams(top_k=5, top_p=0.9, min_p=0.1),
    "penalties": SamplingParams(repetition_penalty=1.3, presence_penalty=0.5),
    "bias": SamplingParams(temperature=0, logit_bias={3: 2.0}, min_tokens=2),
    "logprobs": SamplingParams(logprobs=2),
    "prompt_logprobs": SamplingParams(prompt_logprobs=1),
}


class Row:
    """A running sequence as the scheduler knows it."""

    def __init__(self, number: int, prompt: list[int], params: SamplingParams):
        self.seq_id, self.ids, self.computed = number, prompt, 0
        self.table: list[int] = []
        self.sampling = Sampling(params, number, (7,), len(prompt))


class Planner:
    """Makes the plans of a case, and knows what each batch must be.

    again: a decode computes the token before its own once more, so that a work has known tokens in front of an unknown one.
    """

    def __init__(self, case: Case):
        self.again = False
        self.size, self.random = case["block_size"], random.Random(case["seed"])
        self.rows: dict[int, Row] = {}
        self.free_blocks = list(range(1, 200))
        self.random.shuffle(self.free_blocks)
        self.number = 0

    def plan(self, step: int, asked: list[Case]) -> Plan:
        freed = [each["row"] for each in asked if each["fresh"] or self.is_over(each["row"])]
        for row in freed:
            self.rows.pop(row, None)
        for each in asked:
            row = self.rows.get(each["row"])
            if each["back"] and row is not None:
                freed.append(each["row"])
                row.computed, row.table = 0, []
        works = sorted((self.work(each) for each in asked), key=lambda work: work.num_new > 1)
        return Plan(step, works, freed)

    def is_over(self, row: int) -> bool:
        return row in self.rows and len(self.rows[row].ids) >= MAX_LEN

    def work(self, each: Case) -> Work:
        if each["row"] not in self.rows:
            prompt = [self.random.randrange(VOCAB) for _ in range(each["prompt"])]
            self.number += 1
            self.rows[each["row"]] = Row(self.number, prompt, PARAMS[each["params"]])
        row = self.rows[each["row"]]
        start, end = row.computed, min(row.computed + each["new"], len(row.ids))
        if self.again and 0 < start == len(row.ids) - 1 and row.sampling.params.prompt_logprobs is None:
            start -= 1
        new_blocks = [self.free_blocks.pop() for _ in range(-(-end // self.size) - len(row.table))]
        row.table += new_blocks
        row.computed = end
        params, samples = row.sampling.params, end == len(row.ids)
        scored = row.ids[start + 1 : min(end + 1, row.sampling.num_prompt)] if params.prompt_logprobs is not None else []
        return Work(
            row.seq_id, each["row"], start, end - start, row.ids[start:end], new_blocks, samples, row.sampling,
            row.ids[:] if samples and params.needs_history else None, scored or None,
        )  # fmt: skip

    def take(self, plan: Plan, ids: list[int]) -> None:
        """What was sampled, one for each work that samples."""
        sampled = iter(ids)
        for work in plan.work:
            if work.samples:
                self.rows[work.row].ids.append(next(sampled))
