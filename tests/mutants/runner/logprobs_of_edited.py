"""Fault: log-probabilities are taken of the logits after bias and penalties."""

from __future__ import annotations

from dataclasses import replace

from minfer.runner.eager import EagerRunner
from minfer.sample.edits import edit_logits


class Mutant(EagerRunner):
    def _sample(self, logits, batch):
        edit_logits(logits, batch.sampling.edits)
        return super()._sample(logits, replace(batch, sampling=replace(batch.sampling, edits=[])))
