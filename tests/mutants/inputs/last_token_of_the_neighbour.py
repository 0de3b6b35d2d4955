"""Fault: a token that the host does not know is looked up by place in the batch instead of by row."""

from __future__ import annotations

from dataclasses import replace

import torch

from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def feed_back(self, batch, next_ids):
        rows = torch.arange(len(batch.sampled_rows))
        super().feed_back(replace(batch, sampled_rows=rows), next_ids)
