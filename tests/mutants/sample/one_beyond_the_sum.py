"""Fault: top_p keeps a token more where the likelier ones have exactly its probability."""

from __future__ import annotations

from dataclasses import replace

from minfer.sample.torch import sample


def mutant(logits, batch):
    top_p = batch.sampling.top_p
    batch.sampling = replace(batch.sampling, top_p=top_p + 1e-5 * (top_p < 1))
    return sample(logits, batch)
