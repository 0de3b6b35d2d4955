"""What a benchmark asks for: prompts as token ids, and how many tokens each request wants.

From: a seed, or a caller's own prompts. To: `bench/run.py` for minfer, `bench/hf_generate.py` for transformers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from minfer.errors import MinferError
from minfer.params import SamplingParams

Range = tuple[int, int]  # both ends included


@dataclass(frozen=True)
class Workload:
    """Requests, in the order in which they arrive.

    Args:
        name: what reports call it.
        prompts: token ids of each request.
        max_tokens: output tokens of each request; exactly so many where `ignore_eos`.
        ignore_eos: go on after an end-of-sequence token, so that every engine does the same work.
        seed: what the prompts were drawn with; None where they were written by hand.
        temperature: 0 is greedy.
    """

    name: str
    prompts: list[list[int]]
    max_tokens: list[int]
    ignore_eos: bool = True
    seed: int | None = None
    temperature: float = 0.0

    def params(self) -> list[SamplingParams]:
        """One for each request."""
        return [SamplingParams(temperature=self.temperature, max_tokens=n, ignore_eos=self.ignore_eos) for n in self.max_tokens]

    def first(self, requests: int | None) -> Workload:
        """The first so many requests; None: all."""
        return replace(self, prompts=self.prompts[:requests], max_tokens=self.max_tokens[:requests])

    def shifted(self, by: int, vocab_size: int) -> Workload:
        """The same lengths with other ids, so that no prefix cache answers a repeat from the run before it."""
        return replace(self, prompts=[[(token + by) % vocab_size for token in prompt] for prompt in self.prompts])

    def describe(self) -> dict:
        """For a report: with these numbers and the seed, the workload can be made again."""
        return {
            "name": self.name,
            "seed": self.seed,
            "requests": len(self.prompts),
            "total_prompt_tokens": sum(len(prompt) for prompt in self.prompts),
            "total_max_tokens": sum(self.max_tokens),
            "temperature": self.temperature,
            "prompt_tokens": [len(prompt) for prompt in self.prompts],
            "max_tokens": self.max_tokens,
            "ignore_eos": self.ignore_eos,
        }


def mixed(
    requests: int, prompt_len: Range, output_len: Range, vocab_size: int, max_len: int, seed: int = 0, name: str = "mixed"
) -> Workload:
    """Random ids below vocab_size; lengths drawn evenly from the two ranges. The same arguments give the same workload.

    Raises:
        MinferError: a range is empty, or its longest request would not fit in max_len tokens.
    """
    if requests < 1:
        raise MinferError(f"requests={requests} must be at least 1")
    for what, (low, high) in (("prompt lengths", prompt_len), ("output lengths", output_len)):
        if not 1 <= low <= high:
            raise MinferError(f"{what} {low}:{high} must be two whole numbers, 1 <= low <= high")
    longest = prompt_len[1] + output_len[1]
    if longest > max_len:
        raise MinferError(
            f"the longest prompt and output, {prompt_len[1]} and {output_len[1]} tokens, make {longest}, and the limit is {max_len} "
            "(max_model_len, or what the KV cache holds); shorten them or raise it"
        )
    rng = random.Random(f"{seed} {requests} {prompt_len} {output_len} {vocab_size}")
    prompts = [[rng.randrange(vocab_size) for _ in range(rng.randint(*prompt_len))] for _ in range(requests)]
    return Workload(name, prompts, [rng.randint(*output_len) for _ in range(requests)], seed=seed)


def w1(vocab_size: int) -> Workload:
    """The benchmark of nano-vllm and mini-sglang, to the token: 142,827 tokens in, 133,966 out, at temperature 0.6.

    Source: bench.py of github.com/GeeeekExplorer/nano-vllm, whose ids and lengths come from one generator with seed 0, in this order.

    Raises:
        MinferError: the model has fewer tokens than the benchmark's ids need.
    """
    highest = 10000
    if vocab_size <= highest:
        raise MinferError(f"workload w1 has token ids up to {highest}, and the model has {vocab_size}; take w2, or a larger model")
    rng = random.Random(0)
    prompts = [[rng.randint(0, highest) for _ in range(rng.randint(100, 1024))] for _ in range(256)]
    return Workload("w1", prompts, [rng.randint(100, 1024) for _ in range(256)], seed=0, temperature=0.6)


def w2(vocab_size: int) -> Workload:
    """256 greedy requests of 128 to 512 tokens that ask for 64 to 512: 83,208 tokens in, 72,877 out, whatever the vocabulary."""
    rng = random.Random(0)
    lengths = [(rng.randint(128, 512), rng.randint(64, 512)) for _ in range(256)]
    prompts = [[rng.randrange(vocab_size) for _ in range(length)] for length, _ in lengths]
    return Workload("w2", prompts, [length for _, length in lengths], seed=0)


class Named(NamedTuple):
    """A workload that does not change, so that its figures can be compared over time and between engines."""

    make: Callable[[int], Workload]  # of the model's vocabulary size
    max_model_len: int  # that it is run with


NAMED = {"w1": Named(w1, 4096), "w2": Named(w2, 1024)}
