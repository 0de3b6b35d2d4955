"""Fault: the log-probabilities of prompt tokens are left out."""

from __future__ import annotations

from minfer.runner.eager import EagerRunner


class Mutant(EagerRunner):
    def run(self, batch):
        return super().run(batch)._replace(prompt_logprobs=None)
