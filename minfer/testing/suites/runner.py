"""Slot `runner`: a batch through the model and the sampler, just as the plain runner does it, whatever batch came before.

A tiny random decoder, on the CPU. Sequences share a cache that is full of NaN but for the padding block and what was written. A
runner that keeps static buffers meets batches of other sizes, wider and narrower block tables, and other ways of sampling in turn.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import strategies as st

from minfer.model import Decoder
from minfer.params import SamplingParams
from minfer.parts import KV
from minfer.runner.eager import EagerRunner
from minfer.sample.torch import sample, sampling_tensors
from minfer.testing.batches import make_batch, scattered_tables
from minfer.testing.properties import Case, Differs, Place, Property, expect, expect_tensor
from minfer.testing.recordable import WatchedInputs, recordable_decoder, recordable_sample
from minfer.testing.sampling import row
from minfer.testing.tape import on_tape
from minfer.testing.tiny import CONFIG, tiny_cache, tiny_decoder
from minfer.types import Batch, TopLogprobs

MAX_LEN = 32
NUM_SEQS = 11
BUCKETS = (1, 2, 4, 8)  # of a runner that records steps; larger batches are possible
PARAMS = {
    "greedy": SamplingParams(temperature=0),
    "random": SamplingParams(temperature=5.0),  # the tiny model is very sure of its tokens
    "filtered": SamplingParams(temperature=5.0, top_k=5, top_p=0.9),
    "bias": SamplingParams(temperature=0, logit_bias={3: 5.0}),
    "penalties": SamplingParams(repetition_penalty=1.5),
}
decoder = functools.cache(tiny_decoder)


def cases(
    place: Place, mixed: bool = True, modes: list[str] | None = None, fewest: int = 1, sizes: tuple[int, ...] = (4, 1, 3, 32)
) -> st.SearchStrategy[Case]:
    """`lengths`: tokens that each sequence has in the cache at the start. Steps: {"decode": which sequences, at least `fewest`} and
    {"chunk": [which, new tokens]} besides; "params" by PARAMS, "logprobs" of each sampled token (null: none),
    "scores": whether the tokens of a chunk are scored (prompt_logprobs).
    """
    step = {
        "decode": st.lists(st.integers(0, NUM_SEQS - 1), min_size=fewest, max_size=NUM_SEQS, unique=True),
        "chunk": st.one_of(st.none(), st.tuples(st.integers(0, NUM_SEQS - 1), st.integers(2, 6)).map(list)) if mixed else st.none(),
        "silent": st.sampled_from([0, 0, 1, 2]) if mixed else st.just(0),  # of them, the first so many are not sampled
        "params": st.sampled_from(modes or ["greedy"]),
        "logprobs": st.sampled_from([None, None, None, 0, 2]) if modes else st.none(),
        "scores": st.booleans() if mixed else st.just(False),
    }
    return st.fixed_dictionaries(
        {
            "block_size": st.sampled_from(sizes),
            "lengths": st.lists(st.integers(1, 16), min_size=NUM_SEQS, max_size=NUM_SEQS),
            "steps": st.lists(st.fixed_dictionaries(step), min_size=2, max_size=5),
            "seed": st.integers(0, 9),
        }
    )


class Bench:
    """The part and the plain runner side by side, each with its own cache."""

    def __init__(self, part: Any, case: Case, recorded: bool = False):
        """recorded: the part is told that it runs on a GPU, so that it records its steps."""
        self.case, self.size, self.recorded = case, case["block_size"], recorded
        self.tables, self.num_blocks = scattered_tables([MAX_LEN] * NUM_SEQS, self.size, case["seed"])
        self.random = torch.Generator().manual_seed(case["seed"])
        self.ids = [self.draw_ids(length) for length in case["lengths"]]
        config = SimpleNamespace(
            device=torch.device("cpu"), dtype=torch.float32, model=CONFIG, max_model_len=MAX_LEN, max_num_seqs=NUM_SEQS,
            graph_sizes=BUCKETS, record_random=False, block_size=self.size, max_num_batched_tokens=64,
        )  # fmt: skip
        self.inputs, self.plain_inputs = (WatchedInputs(config, self.size) for _ in range(2))
        self.kv, self.plain_kv = self.cache(), self.cache()
        model = decoder()
        of_part = recordable_decoder() if recorded else model
        self.inputs.static.recorded = recorded
        of_device = SimpleNamespace(**{**vars(config), "device": torch.device("cuda")}) if recorded else config
        self.runner = part(of_part, self.kv, self.inputs, recordable_sample if recorded else sample, of_device)
        self.runner.warm_up()
        self.plain = EagerRunner(model, self.plain_kv, self.plain_inputs, sample, config)
        self.fill(model)

    def cache(self) -> list[KV]:
        """NaN but for block 0, which the padding of a batch may read."""
        kv = tiny_cache(self.num_blocks, self.size)
        for layer in kv:
            for each in layer:
                each[0] = 0
        return kv

    def draw_ids(self, count: int) -> list[int]:
        return torch.randint(CONFIG.vocab_size, (count,), generator=self.random).tolist()

    @torch.inference_mode()
    def fill(self, model: Decoder) -> None:
        """Put every sequence's first tokens into both caches."""
        for ids, table in zip(self.ids, self.tables, strict=True):
            batch = make_batch([(ids, 0)], [table], self.size)
            for kv in (self.kv, self.plain_kv):
                model(batch, kv)

    def batch(self, step: Case) -> Batch:
        """The next token of some sequences, and a chunk of another; tokens that nothing has sampled, so that steps are independent."""
        chunk = [step["chunk"]] if step["chunk"] else []
        asked = [(i, 1) for i in step["decode"] if not chunk or i != chunk[0][0]] + [(i, count) for i, count in chunk]
        asked = [(i, count) for i, count in asked if len(self.ids[i]) + count <= MAX_LEN]
        works, tables, sampled, at = [], [], [], []
        for i, count in asked:
            start = len(self.ids[i])
            self.ids[i] += self.draw_ids(count)
            works.append((self.ids[i][start:], start))
            tables.append(self.tables[i][: -(-len(self.ids[i]) // self.size)])
            if len(works) <= step["silent"] and count == 1:
                continue
            at.append(len(works) - 1)
            sampled.append(row(PARAMS[step["params"]], i, len(self.ids[i]), self.ids[i][:], start))
        if not works:
            return None
        batch = make_batch(works, tables, self.size)
        batch = replace(batch, sample_at=batch.sample_at[at])
        sampling = sampling_tensors(sampled, CONFIG.vocab_size, "cpu")
        if step["scores"] and batch.max_query > 1:
            last = len(batch.token_ids) - 1  # the chunk's own: what follows it is not known
            at = torch.arange(last + 1 - batch.max_query, last)
            batch = replace(batch, score_at=at, score_ids=batch.token_ids[at + 1], num_prompt_logprobs=1)
        return replace(batch, sampling=sampling, num_logprobs=-1 if step["logprobs"] is None else step["logprobs"])

    def run(self, number: int, step: Case) -> bool:
        """One step of both → whether there was anything to compute."""
        batch = self.batch(step)
        if batch is None:
            return False
        came = self.runner.run(self.inputs.hide(batch))
        wanted = self.plain.run(self.plain_inputs.hide(batch))
        ids = wanted.next_ids.tolist()
        what = f"step {number} ({batch.num_decode} decode rows, contexts {batch.contexts})"
        expect_tensor(came.next_ids, wanted.next_ids, f"{what}: next_ids")
        expect(came.next_ids.tolist() == ids, f"{what} to give the plain runner's ids {ids}", came.next_ids.tolist())
        check_logprobs(came.logprobs, wanted.logprobs, f"{what}: log-probabilities of the sampled tokens")
        check_logprobs(came.prompt_logprobs, wanted.prompt_logprobs, f"{what}: log-probabilities of prompt tokens")
        self.check_cache(what)
        times, fed = int(self.inputs.times_fed), self.inputs.fed[: len(ids)].tolist()
        once = times == 1 or (self.recorded and times > 1)  # to record a step is to run it
        expect(once and fed == ids, f"{what} to feed back its ids {ids} to the inputs once", f"{fed}, {times} times")
        return True

    def check_cache(self, what: str) -> None:
        """All blocks but the padding one."""
        for layer, (ours, theirs) in enumerate(zip(self.kv, self.plain_kv, strict=True)):
            for cache, expected, name in zip(ours, theirs, "KV", strict=True):
                same = torch.isclose(cache[1:], expected[1:], atol=1e-4, rtol=1e-4, equal_nan=True)
                if not same.all():
                    block, offset = ((~same).nonzero()[0, :2]).tolist()
                    raise Differs(
                        f"{what} to leave the cache as the plain runner does",
                        f"{name} of layer {layer} differs in block {block + 1}, offset {offset}",
                    )


def check_logprobs(came: TopLogprobs | None, wanted: TopLogprobs | None, what: str) -> None:
    if wanted is None:
        return
    expect(came is not None, what, "none")
    expect(came.top_ids.tolist() == wanted.top_ids.tolist(), f"{what}: top_ids {wanted.top_ids.tolist()}", came.top_ids.tolist())
    for name in ("logprobs", "top_logprobs"):
        ours, theirs = getattr(came, name), getattr(wanted, name)
        same = ours.shape == theirs.shape and torch.allclose(ours, theirs, atol=1e-3)
        expect(same, f"{what}: {name} {theirs.tolist()}", ours.tolist())


def check(part: Any, case: Case) -> None:
    bench, number = Bench(part, case), 0
    for step in case["steps"]:
        number += bench.run(number, step)


def check_recorded(part: Any, case: Case) -> None:
    """A tape stands for CUDA's graphs, so that this can be tried without a GPU."""
    with on_tape():
        bench, number = Bench(part, case, recorded=True), 0
        for step in case["steps"]:
            number += bench.run(number, step)


PROPERTIES = [
    Property(
        "beyond",
        "Batches with more rows than the largest size that is recorded run too: the plain runner's ids, and the same cache.",
        lambda place: cases(place, mixed=False, fewest=BUCKETS[-1] + 1),
        check,
        30,
    ),
    Property(
        "decodes",
        "Decode batches of any size, in turn: the plain runner's ids, the same cache, and nothing left over from an earlier batch.",
        lambda place: cases(place, mixed=False),
        check,
        80,
    ),
    Property("mixed", "So too where chunks come between or in the same batch, or where a row is not sampled.", cases, check, 60),
    Property(
        "sampling",
        "Greedy, random, filtered, biased and penalised steps in turn, with log-probabilities or without.",
        lambda place: cases(place, mixed=False, modes=list(PARAMS)),
        check,
        120,
    ),
    Property(
        "recorded",
        "Steps that are recorded once and replayed: on other batches than those they were recorded on, the plain runner's ids.",
        lambda place: cases(place, mixed=False, modes=list(PARAMS), sizes=(4, 16)),
        check_recorded,
        40,
    ),
]
