"""The plain runner: one call of the model a step, then sampling.

From: the inputs' Batch. To: the executor's Pending, as tensors still on the device.
"""

from __future__ import annotations

import torch

from minfer.sample.logprobs import top_logprobs
from minfer.types import Batch, StepResult, TopLogprobs

SCORE_CHUNK = 256  # prompt positions scored at once: their logits are [256, V]


class EagerRunner:
    """send → expand → model → sample → feed_back."""

    def __init__(self, model, kv, inputs, sample, config):
        self.model = model
        self.kv = kv
        self.inputs = inputs
        self.sample = sample

    def warm_up(self) -> None:
        pass

    @torch.inference_mode()
    def run(self, batch: Batch) -> StepResult:
        batch = self.inputs.expand(self.inputs.send(batch))
        hidden = self.model(batch, self.kv)
        result = self._sample(self.model.head(hidden[batch.sample_at]), batch)
        if batch.score_at is not None:
            result = result._replace(prompt_logprobs=self._score(hidden, batch))
        return result

    def _sample(self, logits: torch.Tensor, batch: Batch) -> StepResult:
        """The next ids, and their log-probabilities where somebody wants them."""
        wanted = batch.num_logprobs >= 0
        raw = logits.clone() if wanted else logits  # sampling may write to its logits
        next_ids = self.sample(logits, batch)
        self.inputs.feed_back(batch, next_ids)
        return StepResult(next_ids, top_logprobs(raw, next_ids, batch.num_logprobs) if wanted else None)

    def _score(self, hidden: torch.Tensor, batch: Batch) -> TopLogprobs:
        """Log-probabilities of prompt tokens, in pieces, since their logits would fill the memory."""
        pieces = [
            top_logprobs(self.model.head(hidden[at]), ids, batch.num_prompt_logprobs)
            for at, ids in zip(batch.score_at.split(SCORE_CHUNK), batch.score_ids.split(SCORE_CHUNK), strict=True)
        ]
        return TopLogprobs(*(torch.cat(parts) for parts in zip(*pieces, strict=True)))
