"""What a benchmark asks for: prompts as token ids, and how many tokens each request wants.

From: a seed, or a caller's own prompts. To: `bench/run.py` for minfer, `bench/hf_generate.py` for transformers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from minfer.errors import MinferError
from minfer.params import SamplingParams

Range = tuple[int, int]  # both ends included


@dataclass(frozen=True)
class Workload:
    """Requests that all arrive at once and are decoded greedily.

    Args:
        name: what reports call it.
        prompts: token ids of each request.
        max_tokens: output tokens of each request; exactly so many where `ignore_eos`.
        ignore_eos: go on after an end-of-sequence token, so that every engine does the same work.
        seed: what the prompts were drawn with; None where they were written by hand.
    """

    name: str
    prompts: list[list[int]]
    max_tokens: list[int]
    ignore_eos: bool = True
    seed: int | None = None

    def params(self) -> list[SamplingParams]:
        """One for each request."""
        return [SamplingParams(temperature=0, max_tokens=n, ignore_eos=self.ignore_eos) for n in self.max_tokens]

    def describe(self) -> dict:
        """For a report: with these numbers and the seed, the workload can be made again."""
        return {
            "name": self.name,
            "seed": self.seed,
            "requests": len(self.prompts),
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
