"""Runs plans in this process, on one device: our own model over the blocks' K/V cache.

From: the loop hands over a Plan. To: the Pending that it waits on.
"""

from __future__ import annotations

import torch

from minfer.executor.kv_cache import KVCache
from minfer.executor.memory import check_host_blocks, num_blocks
from minfer.executor.results import to_host
from minfer.model import Functions
from minfer.resolve import resolve
from minfer.types import Plan, Sampled, StepResult
from minfer.weights import load_decoder


class LocalExecutor:
    """Owns the model, the cache's memory, the inputs and the runner."""

    usage = None  # the blocks part knows

    def __init__(self, config, stage, block_size: int):
        functions = Functions(**{slot: resolve(slot, getattr(stage, slot)) for slot in Functions._fields})
        self.kv_bytes_per_token = config.model.kv_bytes_per_token(config.dtype)
        self.model = load_decoder(config.path, config.model, functions, config.dtype, config.device, config.max_model_len)
        self.num_blocks = num_blocks(config, block_size)
        check_host_blocks(config, block_size)
        self.num_host_blocks = config.num_host_blocks
        self.cache = KVCache(config, self.num_blocks, self.num_host_blocks, block_size)
        self.inputs = resolve("inputs", stage.inputs)(config, block_size)
        sample = resolve("sample", stage.sample)
        self.runner = resolve("runner", stage.runner)(self.model, self.cache.layers(), self.inputs, sample, config)
        self.runner.warm_up()

    @torch.inference_mode()
    def launch(self, plan: Plan) -> LocalPending:
        self.cache.copy(plan.copies)
        return LocalPending(plan, self.runner.run(self.inputs.build(plan)))

    def close(self) -> None:
        self.model = self.cache = self.inputs = self.runner = None


class LocalPending:
    """A step whose tensors may still be on their way."""

    def __init__(self, plan: Plan, result: StepResult):
        self.plan = plan
        self.result = result

    def wait(self) -> Sampled:
        return to_host(self.plan, self.result)
