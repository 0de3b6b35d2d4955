"""Fault: a step that is recorded while a message is being written takes that message's place."""

from __future__ import annotations

from minfer.inputs.resident import ResidentInputs


class Mutant(ResidentInputs):
    def send(self, batch, bucket=None):
        if batch is None:
            self.message.begin()
        return super().send(batch, bucket)
