"""What a soak asks for, and what must come back: random requests of every kind, and what a plain engine with ample room gives each.

From: a seed. To: `bench/soak.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from minfer.llm import LLM
from minfer.outputs import Logprob, RequestOutput
from minfer.params import SamplingParams
from minfer.stages import CHUNKED

SHAKES = 3
TOLERANCE = 5e-3  # of log-probabilities
ROOMY = {"max_num_seqs": 64, "num_kv_blocks": 4096, "block_size": 16, "max_num_batched_tokens": 4096}


@dataclass(frozen=True)
class Case:
    """One request and what it must give."""

    prompt: list[int]
    params: SamplingParams
    expected: RequestOutput

    def wrong_at_end(self, output: RequestOutput) -> str | None:
        """What is wrong with its last output; None: nothing."""
        for mine, right in zip(output.outputs, self.expected.outputs, strict=True):
            if mine.token_ids != right.token_ids:
                return f"completion {mine.index}: tokens {mine.token_ids}, not {right.token_ids}"
            if (mine.finish_reason, mine.stop_reason) != (right.finish_reason, right.stop_reason):
                return f"completion {mine.index}: ended by {mine.finish_reason}, not by {right.finish_reason}"
            if not close(mine.logprobs, right.logprobs):
                return f"completion {mine.index}: logprobs {mine.logprobs}, not {right.logprobs}"
        if not close(output.prompt_logprobs, self.expected.prompt_logprobs):
            return f"prompt_logprobs {output.prompt_logprobs}, not {self.expected.prompt_logprobs}"
        return None

    def wrong_so_far(self, output: RequestOutput) -> str | None:
        """The same for an output before the end, or of an aborted request."""
        for mine, right in zip(output.outputs, self.expected.outputs, strict=True):
            if mine.token_ids != right.token_ids[: len(mine.token_ids)]:
                return f"completion {mine.index}: tokens {mine.token_ids} are not the beginning of {right.token_ids}"
        return None


def close(mine: list[dict[int, Logprob] | None] | None, right: list[dict[int, Logprob] | None] | None) -> bool:
    """Whether two lists of log-probabilities are there for the same positions, and agree on each position's own token."""
    if mine is None or right is None:
        return mine is right
    pairs = zip(mine, right, strict=False)
    return len(mine) == len(right) and all(
        (a is None and b is None) or (a is not None and b is not None and agree(a, b)) for a, b in pairs
    )


def agree(mine: dict[int, Logprob], right: dict[int, Logprob]) -> bool:
    """The first entry is the position's own token."""
    token = next(iter(right))
    return token in mine and abs(mine[token].logprob - right[token].logprob) < TOLERANCE


def make_cases(model: str, count: int, max_len: int, seed: int, options: Mapping[str, object]) -> list[Case]:
    """`count` random requests, less those with near ties, whose tokens no two ways of computing need agree on.

    Args:
        max_len: tokens of prompt and output together, at most.
        options: of LLM: device, dtype and the like, as the engine under test has them.
    """
    sizes = {**options, **ROOMY, "max_model_len": max_len}
    with LLM(model, stage=CHUNKED, **sizes) as llm:
        asked = draw(random.Random(seed), count, max_len, llm.config.model.vocab_size)
        expected = llm.generate(*map(list, zip(*asked, strict=True)), progress=False)
    steady = [True] * count
    with LLM(model, stage=CHUNKED.with_parts("shaky", sample="minfer.bench.shaky:sample"), **sizes) as llm:
        for _ in range(SHAKES):
            for i, output in enumerate(llm.generate(*map(list, zip(*asked, strict=True)), progress=False)):
                steady[i] &= Case(*asked[i], expected[i]).wrong_so_far(output) is None
    return [Case(*each, output) for each, output, good in zip(asked, expected, steady, strict=True) if good]


def draw(rng: random.Random, count: int, max_len: int, vocab_size: int) -> list[tuple[list[int], SamplingParams]]:
    """Prompts that begin alike, and parameters of every kind."""
    longest = max_len * 2 // 3
    stems = [[rng.randrange(vocab_size) for _ in range(longest)] for _ in range(4)]
    requests = []
    for _ in range(count):
        stem = rng.choice(stems)[: rng.randrange(longest)]
        tail = [rng.randrange(vocab_size) for _ in range(rng.randint(1, 5))]
        requests.append(([*stem, *tail][:longest], draw_params(rng, max_len - longest, vocab_size)))
    return requests


def draw_params(rng: random.Random, most: int, vocab_size: int) -> SamplingParams:
    """Seeded; half of them greedy, and each other choice on in some of them."""

    def sometimes(off, *values, chance: float = 0.2):
        return rng.choice(values) if rng.random() < chance else off

    max_tokens = rng.randint(1, most)
    return SamplingParams(
        n=sometimes(1, 2, 3),
        temperature=sometimes(0.0, 0.5, 1.0, 1.5, chance=0.5),
        top_k=sometimes(0, 1, 5, 50),
        top_p=sometimes(1.0, 0.5, 0.9),
        min_p=sometimes(0.0, 0.05),
        repetition_penalty=sometimes(1.0, 0.8, 1.3),
        presence_penalty=sometimes(0.0, -0.5, 1.0),
        frequency_penalty=sometimes(0.0, 0.7),
        logit_bias=sometimes((), {rng.randrange(vocab_size): 4.0}),
        logprobs=sometimes(None, 0, 3),
        prompt_logprobs=sometimes(None, 1, chance=0.05),
        seed=rng.getrandbits(62),
        max_tokens=max_tokens,
        min_tokens=sometimes(0, rng.randint(0, max_tokens)),
        stop_token_ids=sometimes((), rng.sample(range(vocab_size), vocab_size // 10)),
    )
