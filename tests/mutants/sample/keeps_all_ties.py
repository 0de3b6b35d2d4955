"""Fault: top_k keeps every token that is as likely as the k-th."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.sample.torch import sample


def mutant(logits, batch):
    top_k, size = batch.sampling.top_k, logits.shape[1]
    if not batch.sampling.edits and (batch.sampling.temperature > 0).all():
        edge = logits.sort(-1, descending=True).values.gather(1, top_k[:, None].clamp_max(size) - 1)
        logits = logits.masked_fill(logits < edge, float("-inf"))
        batch.sampling = replace(batch.sampling, top_k=torch.full_like(top_k, size))
    return sample(logits, batch)
