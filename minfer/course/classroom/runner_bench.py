"""What a submitted runner is put between: the tiny decoder, a cache, and inputs that tell what was fed back.

From: `serving.py`. To: the runner; what it did to the cache and fed back goes to the grader, which compares.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import torch

from minfer.parts import KV
from minfer.sample.torch import sample
from minfer.testing.recordable import WatchedInputs, recordable_decoder, recordable_sample
from minfer.testing.tape import on_tape
from minfer.testing.tiny import CONFIG, tiny_decoder
from minfer.types import Batch


class Bench:
    """The runner with all that it needs. The cache stays where it is; the grader's is copied in before a step.

    Args:
        config: the sizes, as numbers.
        recorded: the runner is told that it runs on a GPU, and a tape stands for CUDA's graphs until `close`.
    """

    def __init__(self, part: Any, config: SimpleNamespace, kv: list[KV], recorded: bool):
        self.tape = ExitStack()
        if recorded:
            self.tape.enter_context(on_tape())
        config.device, config.dtype, config.model = torch.device("cpu"), torch.float32, CONFIG
        self.kv = [(keys.clone(), values.clone()) for keys, values in kv]
        self.inputs = WatchedInputs(config, config.block_size)
        self.inputs.static.recorded = recorded
        config.device = torch.device("cuda" if recorded else "cpu")
        model = recordable_decoder() if recorded else tiny_decoder()
        self.runner = part(model, self.kv, self.inputs, recordable_sample if recorded else sample, config)
        self.runner.warm_up()

    def run(self, batch: Batch, hidden: torch.Tensor, kv: list[KV]) -> list:
        """[the result, how often tokens were fed back, those of the last time, the cache]."""
        for mine, theirs in zip(self.kv, kv, strict=True):
            for cache, wanted in zip(mine, theirs, strict=True):
                cache.copy_(wanted)
        self.inputs.hidden.copy_(hidden)
        self.inputs.times_fed.zero_()
        result = self.runner.run(batch)
        return [result, self.inputs.times_fed, self.inputs.fed, [list(layer) for layer in self.kv]]

    def close(self) -> None:
        self.tape.close()
