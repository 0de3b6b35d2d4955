"""Plans such as a scheduler makes, by hand, and what the batch of each must be, field by field as `minfer.types.Batch` says.

From: the cases of the suite of `inputs`. To: the same, which compares a part's batches.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.sample.torch import sampling_tensors
from minfer.testing.properties import Case, Place, expect
from minfer.types import Batch, Plan, Sampling, Work

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


def cases(place: Place) -> st.SearchStrategy[Case]:
    """Steps, each a list of works: the next `new` tokens of the sequence in a row, or the first of a new one in its place."""
    work = st.fixed_dictionaries(
        {
            "row": st.integers(0, NUM_ROWS - 1),
            "new": st.integers(1, 9),  # at most; after the prompt it is one
            "fresh": st.booleans(),  # free the row first
            "prompt": st.integers(1, 12),  # length of the prompt of a new sequence
            "params": st.sampled_from(list(PARAMS)),
        }
    )
    steps = st.lists(st.lists(work, min_size=1, max_size=NUM_ROWS, unique_by=lambda each: each["row"]), min_size=1, max_size=6)
    return st.fixed_dictionaries({"block_size": st.sampled_from([4, 1, 2, 3, 24]), "steps": steps, "seed": st.integers(0, 9)})


class Row:
    """A running sequence as the scheduler knows it."""

    def __init__(self, number: int, prompt: list[int], params: SamplingParams):
        self.seq_id, self.ids, self.computed = number, prompt, 0
        self.table: list[int] = []
        self.sampling = Sampling(params, number, (7,), len(prompt))


class Planner:
    """Makes the plans of a case, and knows what each batch must be."""

    def __init__(self, case: Case):
        self.size, self.random = case["block_size"], random.Random(case["seed"])
        self.rows: dict[int, Row] = {}
        self.free_blocks = list(range(1, 200))
        self.random.shuffle(self.free_blocks)
        self.number = 0

    def plan(self, step: int, asked: list[Case]) -> Plan:
        freed = [each["row"] for each in asked if each["fresh"] or self.is_over(each["row"])]
        for row in freed:
            self.rows.pop(row, None)
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


def check_batch(batch: Batch, planner: Planner, plan: Plan, step: int) -> None:
    for name, wanted in wanted_fields(planner, plan).items():
        check_field(name, getattr(batch, name), wanted, step)
    check_tables(batch, planner, plan, step)
    check_sampling(batch, plan, step)


def wanted_fields(planner: Planner, plan: Plan) -> dict[str, Any]:
    """Everything but block tables and sampling, written out token by token."""
    size, works = planner.size, plan.work
    tokens = [(work, planner.rows[work.row], at) for work in works for at in range(work.start, work.start + work.num_new)]
    lens = [work.num_new for work in works]
    ends = [sum(lens[: i + 1]) for i in range(len(lens))]
    scored = [(end - n, work) for end, n, work in zip(ends, lens, works, strict=True) if work.score_ids]
    wanted = {
        "token_ids": [row.ids[at] for _, row, at in tokens],
        "positions": [at for *_, at in tokens],
        "slots": [row.table[at // size] * size + at % size for _, row, at in tokens],
        "query_start": torch.tensor([0, *ends], dtype=torch.int32),
        "context_lens": torch.tensor([work.start + work.num_new for work in works], dtype=torch.int32),
        "sample_at": [end - 1 for end, work in zip(ends, works, strict=True) if work.samples],
        "rows": [work.row for work in works],
        "rope_lens": [max(at + 1, work.sampling.num_prompt) for work, _, at in tokens],
        "num_decode": lens.count(1),
        "max_query": max(lens),
        "max_context": max(work.start + work.num_new for work in works),
        "query_lens": lens,
        "contexts": [work.start + work.num_new for work in works],
        "num_logprobs": max((-1 if (n := work.sampling.params.logprobs) is None else n for work in works if work.samples), default=-1),
        "score_at": [start + i for start, work in scored for i in range(len(work.score_ids))] or None,
        "score_ids": [token for _, work in scored for token in work.score_ids] or None,
        "num_prompt_logprobs": max((work.sampling.params.prompt_logprobs for _, work in scored), default=-1),
    }
    on_device = {name for name, value in wanted.items() if isinstance(value, list)} - {"query_lens", "contexts"}
    return {name: torch.tensor(value, dtype=torch.int64) if name in on_device else value for name, value in wanted.items()}


def check_field(name: str, came: Any, wanted: Any, step: int) -> None:
    if isinstance(wanted, torch.Tensor):
        expect(isinstance(came, torch.Tensor), f"batch.{name} a tensor", type(came).__name__)
        expect(came.dtype == wanted.dtype, f"batch.{name} of dtype {wanted.dtype}", came.dtype)
        came, wanted = came.tolist(), wanted.tolist()
    expect(came == wanted, f"batch.{name} {wanted} in step {step}", came)


def check_tables(batch: Batch, planner: Planner, plan: Plan, step: int) -> None:
    """A row's own blocks, then block 0 only: what an earlier sequence left in a row must not show."""
    expect(batch.block_tables.dtype == torch.int32, "batch.block_tables of dtype torch.int32", batch.block_tables.dtype)
    for work, came in zip(plan.work, batch.block_tables.tolist(), strict=True):
        own = planner.rows[work.row].table[: -(-(work.start + work.num_new) // planner.size)]
        wanted = own + [0] * (len(came) - len(own))
        expect(came == wanted, f"block table {wanted} of row {work.row} in step {step}", came)


def check_sampling(batch: Batch, plan: Plan, step: int) -> None:
    rows = [(work.sampling, work.start + work.num_new, work.history) for work in plan.work if work.samples]
    wanted = sampling_tensors(rows, VOCAB, "cpu")
    for name in wanted.__slots__:
        check_field(f"sampling.{name}", getattr(batch.sampling, name), getattr(wanted, name), step)
