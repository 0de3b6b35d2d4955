"""Slot `inputs`: from a plan to the tensors of a batch, field by field as `minfer.types.Batch` says.

The plans are such as a scheduler makes: prompts in chunks and decodes, rows that are freed and taken again, new blocks named once.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st

from minfer.errors import PartError
from minfer.sample.torch import sampling_tensors
from minfer.testing.planner import MAX_LEN, NUM_ROWS, PARAMS, VOCAB, Planner
from minfer.testing.properties import Case, Place, Property, expect
from minfer.types import Batch, Bucket, Plan, SamplingTensors


def cases(place: Place) -> st.SearchStrategy[Case]:
    """Steps, each a list of works: the next `new` tokens of the sequence in a row, or the first of a new one in its place."""
    work = st.fixed_dictionaries(
        {
            "row": st.integers(0, NUM_ROWS - 1),
            "new": st.integers(1, 9),  # at most; after the prompt it is one
            "fresh": st.booleans(),  # free the row first
            "back": st.booleans(),  # its sequence has given way, and comes back with nothing in the cache
            "prompt": st.integers(1, 12),  # length of the prompt of a new sequence
            "params": st.sampled_from(list(PARAMS)),
        }
    )
    steps = st.lists(st.lists(work, min_size=1, max_size=NUM_ROWS, unique_by=lambda each: each["row"]), min_size=1, max_size=6)
    return st.fixed_dictionaries({"block_size": st.sampled_from([4, 1, 2, 3, 24]), "steps": steps, "seed": st.integers(0, 9)})


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
    planner.again = case["seed"] % 2 == 1
    fresh: set[int] = set()  # seq_ids whose last token nobody has told the host
    for step, asked in enumerate(case["steps"]):
        plan = planner.plan(step, asked)
        unknown = {work.seq_id for work in plan.work if work.row not in plan.freed_rows} & fresh  # who comes back has waited for them
        works = [work._replace(token_ids=work.token_ids[:-1]) if work.seq_id in unknown else work for work in plan.work]
        try:
            built = inputs.build(Plan(step, works, plan.freed_rows))
        except PartError:
            expect(bool(unknown), "no error where every token is known", "one")
            return
        batch = inputs.expand(inputs.send(built))
        check_batch(batch, planner, plan, step)
        sample(inputs, planner, plan, batch)
        fresh = {work.seq_id for work in plan.work if work.samples}


HOST = ("num_decode", "max_query", "max_context", "query_lens", "contexts", "num_logprobs", "num_prompt_logprobs")


def check_host(part: Any, case: Case) -> None:
    """Before anything is sent: how many there are of everything, and all that the host needs to choose a way to run the step."""
    inputs, planner = make(part, case)
    for step, asked in enumerate(case["steps"]):
        plan = planner.plan(step, asked)
        batch, wanted = inputs.build(plan), wanted_fields(planner, plan)
        for name in HOST:
            check_field(name, getattr(batch, name), wanted[name], step)
        for name in ("token_ids", "sample_at", "rows", "context_lens", "query_start"):
            expect(len(getattr(batch, name)) == len(wanted[name]), f"{len(wanted[name])} of batch.{name} in step {step}",
                   len(getattr(batch, name)))  # fmt: skip
        check_sampling(batch, plan, step, ("all_greedy", "any_filter", "edits"))
        planner.take(plan, [planner.random.randrange(VOCAB) for work in plan.work if work.samples])


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


def check_sampling(batch: Batch, plan: Plan, step: int, names: tuple[str, ...] = SamplingTensors.__slots__) -> None:
    rows = [(work.sampling, work.start + work.num_new, work.history) for work in plan.work if work.samples]
    wanted = sampling_tensors(rows, VOCAB, "cpu")
    for name in names:
        check_field(f"sampling.{name}", getattr(batch.sampling, name), getattr(wanted, name), step)


PROPERTIES = [
    Property("host", "What `build` gives says how many there are of everything, and how they are sampled.", cases, check_host, 100),
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
