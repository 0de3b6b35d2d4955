"""Fault: before min_tokens only the first of the stop tokens is banned."""

from __future__ import annotations

from dataclasses import replace

from minfer.sample.torch import sample


def mutant(logits, batch):
    edits = [(row, one._replace(stop_ids=one.stop_ids[:1]), history) for row, one, history in batch.sampling.edits]
    batch.sampling = replace(batch.sampling, edits=edits)
    return sample(logits, batch)
