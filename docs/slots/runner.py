"""A runner that measures how long its steps take on the host."""

import time

from minfer.runner.eager import EagerRunner


class Timed(EagerRunner):
    seconds = 0.0

    def run(self, batch):
        start = time.perf_counter()
        result = super().run(batch)
        self.seconds += time.perf_counter() - start
        return result
