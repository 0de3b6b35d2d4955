"""Fault: logit_bias is added behind the repetition penalty, not before it."""

from __future__ import annotations

from dataclasses import replace

from minfer.sample.edits import add_bias, edit_logits
from minfer.sample.torch import sample


def mutant(logits, batch):
    logits, edits = logits.float(), batch.sampling.edits
    edit_logits(logits, [(row, one._replace(params=replace(one.params, logit_bias={})), history) for row, one, history in edits])
    for row, one, _ in edits:
        add_bias(logits[row], one.params.logit_bias)
    batch.sampling = replace(batch.sampling, edits=[])
    return sample(logits, batch)
