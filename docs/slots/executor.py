"""An executor that keeps the last plan, to look at it when something went wrong."""

from minfer.executor.local import LocalExecutor


class Remembers(LocalExecutor):
    last_plan = None

    def launch(self, plan):
        self.last_plan = plan
        return super().launch(plan)
