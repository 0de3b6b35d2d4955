"""Fault: the noise's key takes the low half of the seed only, its sign lost with the rest."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from minfer.sample.torch import sample


def mutant(logits, batch):
    return sample(logits, SimpleNamespace(sampling=replace(batch.sampling, seeds=batch.sampling.seeds & 0xFFFFFFFF)))
