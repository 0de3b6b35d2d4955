"""Fault: top_k leaves k + 1 tokens."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from minfer.sample.torch import sample


def mutant(logits, batch):
    return sample(logits, SimpleNamespace(sampling=replace(batch.sampling, top_k=batch.sampling.top_k + 1)))
