"""An inputs part that keeps count of the tokens that it sent."""

from minfer.inputs.host import HostInputs


class Counted(HostInputs):
    num_tokens = 0

    def build(self, plan):
        batch = super().build(plan)
        self.num_tokens += len(batch.token_ids)
        return batch
