"""Slot `inputs`: from a plan to the tensors of a batch, field by field as `minfer.types.Batch` says.

The plans are such as a scheduler makes: prompts in chunks and decodes, rows that are freed and taken again, new blocks named once.
"""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st

from minfer.errors import PartError
from minfer.params import SamplingParams
from minfer.sample.torch import sampling_tensors
from minfer.testing.properties import Case, Place, Property, expect
from minfer.types import Batch, Bucket, Plan, Sampling, Work

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


def make(part: Any, case: Case) -> tuple[Any, Planner]:
    config = SimpleNamespace(
        device=torch.device("cpu"), model=SimpleNamespace(vocab_size=VOCAB), max_num_seqs=NUM_ROWS, max_model_len=MAX_LEN,
        max_num_batched_tokens=64, block_size=case["block_size"],
    )  # fmt: skip
    return part(config, case["block_size"]), Planner(case)


def check(part: Any, case: Case) -> None:
    inputs, planner = make(part, case)
    for step, asked in enumerate(case["steps"]):
        plan = planner.plan(step, asked)
        batch = inputs.expand(inputs.send(inputs.build(plan)))
        check_batch(batch, planner, plan, step)
        sample(inputs, planner, plan, batch)


def sample(inputs: Any, planner: Planner, plan: Plan, batch: Batch) -> None:
    """Any tokens: the inputs hear of them first, as in a runner."""
    ids = [planner.random.randrange(VOCAB) for work in plan.work if work.samples]
    padding = [0] * (len(batch.sample_at) - len(ids))
    inputs.feed_back(batch, torch.tensor(ids + padding, dtype=torch.int64))
    planner.take(plan, ids)


def check_batch(batch: Batch, planner: Planner, plan: Plan, step: int) -> None:
    for name, wanted in wanted_fields(planner, plan).items():
        check_field(name, getattr(batch, name), wanted, step)
    check_tables(batch, planner, plan, step)
    check_sampling(batch, plan, step)


def check_padded(part: Any, case: Case) -> None:
    """Filled up to a bucket; the batch itself is cut out of it again and must be what it is without padding."""
    inputs, planner = make(part, case)
    for step, asked in enumerate(case["steps"]):
        plan = planner.plan(step, asked)
        B, T, S = len(plan.work), sum(work.num_new for work in plan.work), sum(work.samples for work in plan.work)
        bucket = Bucket(NUM_ROWS) if T == B == S else Bucket(NUM_ROWS, T + step % 3)
        built = inputs.build(plan)
        record(inputs, bucket)
        sent = inputs.send(built, bucket)
        for column, what in ((sent.token_ids, "token_ids"), (sent.query_start, "query_start")):
            size = bucket.num_tokens if what == "token_ids" else bucket.rows + 1
            expect(len(column) == size, f"batch.{what} filled up to {size} in step {step}", len(column))
        batch = inputs.expand(sent)
        check_batch(unpadded(batch, B, T, S, plan), planner, plan, step)
        expect(not batch.slots[T:].any(), f"padding tokens in slot 0 in step {step}", batch.slots[T:].tolist())
        expect(not batch.context_lens[B:].any(), f"padding rows of context 0 in step {step}", batch.context_lens[B:].tolist())
        expect(not batch.block_tables[B:].any(), f"block 0 only in the tables of padding rows in step {step}", batch.block_tables[B:])
        ids = batch.token_ids[T:].tolist()
        expect(all(0 <= token < VOCAB for token in ids), f"padding tokens that the model has, in step {step}", ids)
        sample(inputs, planner, plan, batch)


def record(inputs: Any, bucket: Bucket) -> None:
    """What a runner does that meets a bucket for the first time: the step on nothing but padding."""
    batch = inputs.expand(inputs.send(None, bucket))
    expect(not batch.slots.any(), "nothing but padding in a batch without sequences", batch.slots.tolist())
    inputs.feed_back(batch, torch.zeros(bucket.rows, dtype=torch.int64))


def unpadded(batch: Batch, B: int, T: int, S: int, plan: Plan) -> Batch:
    cut = {name: getattr(batch, name)[:T] for name in ("token_ids", "positions", "slots", "rope_lens")}
    cut |= {name: getattr(batch, name)[:B] for name in ("context_lens", "rows", "block_tables", "query_lens", "contexts")}
    tensors = ("temperature", "top_k", "top_p", "min_p", "seeds", "positions")
    sampling = replace(batch.sampling, **{name: getattr(batch.sampling, name)[:S] for name in tensors})
    lens = [work.num_new for work in plan.work]
    return replace(
        batch, **cut, query_start=batch.query_start[: B + 1], sample_at=batch.sample_at[:S], sampling=sampling,
        num_decode=min(batch.num_decode, lens.count(1)), max_query=max(lens),
    )  # fmt: skip


def check_ahead(part: Any, case: Case) -> None:
    """Each step is planned before the host knows the tokens of the last one. A part that needs them must say so."""
    inputs, planner = make(part, case)
    fresh: set[int] = set()  # seq_ids whose last token nobody has told the host
    for step, asked in enumerate(case["steps"]):
        plan = planner.plan(step, asked)
        works = [work._replace(token_ids=work.token_ids[:-1]) if work.seq_id in fresh else work for work in plan.work]
        try:
            built = inputs.build(Plan(step, works, plan.freed_rows))
        except PartError:
            expect(bool(fresh.intersection(work.seq_id for work in works)), "no error where every token is known", "one")
            return
        batch = inputs.expand(inputs.send(built))
        check_batch(batch, planner, plan, step)
        sample(inputs, planner, plan, batch)
        fresh = {work.seq_id for work in plan.work if work.samples}


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


PROPERTIES = [
    Property("batch", "Every field of the batch is what minfer.types.Batch says, step after step.", cases, check, 200),
    Property(
        "padded",
        "So too where padding fills it up, and a step is recorded on padding first; padding touches nobody's K/V.",
        cases,
        check_padded,
        150,
    ),
    Property(
        "ahead", "Tokens that the host does not know yet are those that were fed back, or an error says so.", cases, check_ahead, 150
    ),
]
