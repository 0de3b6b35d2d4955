"""Fault: the noise depends on the row in the batch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import torch

from minfer.sample.torch import sample


def mutant(logits, batch):
    rows = torch.arange(len(logits))
    return sample(logits, SimpleNamespace(sampling=replace(batch.sampling, seeds=batch.sampling.seeds + rows)))
