"""Fault: presence and frequency penalties count the prompt's tokens too."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from minfer.sample.torch import sample


def mutant(logits, batch):
    edits = [(row, sampling._replace(num_prompt=0), history) for row, sampling, history in batch.sampling.edits]
    return sample(logits, SimpleNamespace(sampling=replace(batch.sampling, edits=edits)))
