"""Fault: the repetition penalty divides negative logits too, which makes them likelier."""

from __future__ import annotations

from minfer.sample.torch import sample


def mutant(logits, batch):
    logits = logits.float()
    for row, sampling, history in batch.sampling.edits:
        negative = [token for token in set(history) if logits[row, token] < 0]
        logits[row, negative] /= sampling.params.repetition_penalty**2  # undoes the multiplication, and divides
    return sample(logits, batch)
