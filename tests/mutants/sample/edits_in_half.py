"""Fault: the logits are edited in the dtype in which they come."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from minfer.sample.edits import edit_logits
from minfer.sample.torch import sample


def mutant(logits, batch):
    sampling = batch.sampling
    if sampling.edits:
        edit_logits(logits, sampling.edits)
    return sample(logits, SimpleNamespace(sampling=replace(sampling, edits=[])))
