"""Slot `inputs`: from a plan to the tensors of a batch, field by field as `minfer.types.Batch` says.

The plans are such as a scheduler makes: prompts in chunks and decodes, rows that are freed and taken again, new blocks named once.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch

from minfer.errors import PartError
from minfer.testing.plans import MAX_LEN, NUM_ROWS, VOCAB, Planner, cases, check_batch
from minfer.testing.properties import Case, Property, expect
from minfer.types import Batch, Bucket, Plan


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
