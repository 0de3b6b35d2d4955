"""The oracle of the parity tests: transformers' own model of a checkpoint, in float32 with eager attention and no K/V cache.

From: a checkpoint's folder and the tokens that an engine gave. To: the tests, as a verdict on those tokens.

Tokens are greedy exactly if each one is the likeliest after all before it. So one forward pass over prompt and output judges a
whole output, and a tie that was decided the other way does not spoil what comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, RepetitionPenaltyLogitsProcessor

from minfer.params import SamplingParams

MARGIN = 1e-3  # logits closer than this are a tie: float32 rounds differently in batches of other shapes

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # transformers' form: ids [1, T], scores [1, V] → scores


class Oracle:
    """One checkpoint. Everything it computes is kept, since tests ask for the same tokens many times."""

    def __init__(self, path: Path):
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        self.model = model.eval()
        self._logits = cache(self._compute)

    def logits(self, ids: Iterable[int]) -> torch.Tensor:
        """ids, T of them → [T, V] float32: after each token, the logits of the next one."""
        return self._logits(tuple(ids))

    def logprobs(self, ids: Iterable[int]) -> torch.Tensor:
        """The same as log-probabilities, [T, V] float32."""
        return self.logits(ids).log_softmax(-1)

    def greedy(self, prompt: list[int], count: int, processors: Iterable[Processor] = ()) -> list[int]:
        """The `count` greedy tokens after the prompt; of equal logits the lowest id."""
        ids = list(prompt)
        for _ in range(count):
            ids.append(int(_processed(self.logits(ids)[-1], ids, processors).argmax()))
        return ids[len(prompt) :]

    def count_ties(self, prompt: list[int], output: list[int], processors: Iterable[Processor] = ()) -> int:
        """Check that each output token is the likeliest after those before it → how many were decided by a tie.

        Raises:
            AssertionError: a token is further than MARGIN below the likeliest; says which, and by how much.
        """
        ids = [*prompt, *output]
        rows = self.logits(ids)
        ties = 0
        for at in range(len(prompt), len(ids)):
            scores = _processed(rows[at - 1], ids[:at], processors)
            best = int(scores.argmax())
            gap = float(scores[best] - scores[ids[at]])
            assert gap <= MARGIN, (
                f"output token {at - len(prompt)} is {ids[at]}; the likeliest is {best}, {gap:.4f} above it. "
                f"Prompt {list(prompt)}, output {list(output)}"
            )
            ties += best != ids[at]
        return ties

    @torch.inference_mode()
    def _compute(self, ids: tuple[int, ...]) -> torch.Tensor:
        return self.model(torch.tensor([ids]), use_cache=False).logits[0].float()


def _processed(scores: torch.Tensor, ids: list[int], processors: Iterable[Processor]) -> torch.Tensor:
    history = torch.tensor([ids])
    scores = scores.clone()[None]
    for processor in processors:
        scores = processor(history, scores)
    return scores[0]


def processors_of(params: SamplingParams, num_prompt: int, stop_ids: Iterable[int] = ()) -> list[Processor]:
    """What `params` does to the logits, in the order of `SamplingParams`; the repetition penalty is transformers' own."""

    def bias(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        for token, amount in params.logit_bias:
            scores[0, token] += amount
        return scores

    def at_least_min_tokens(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if ids.shape[1] - num_prompt < params.min_tokens:
            scores[0, list(stop_ids)] = float("-inf")
        return scores

    def counted(ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        output = ids[0, num_prompt:].tolist()
        for token in set(output):
            scores[0, token] -= params.presence_penalty + params.frequency_penalty * output.count(token)
        return scores

    repetition = [RepetitionPenaltyLogitsProcessor(params.repetition_penalty)] if params.repetition_penalty != 1 else []
    return [bias, at_least_min_tokens, *repetition, counted]
