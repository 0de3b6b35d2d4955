"""Fault: the distances are multiplied by the temperature."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import torch

from minfer.sample.torch import sample


def mutant(logits, batch):
    t = batch.sampling.temperature
    return sample(logits, SimpleNamespace(sampling=replace(batch.sampling, temperature=torch.where(t > 0, 1 / t, t))))
