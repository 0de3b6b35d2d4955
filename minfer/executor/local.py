"""Runs plans in this process, on one device: our own model over the blocks' K/V cache.

From: the loop hands over a Plan. To: the Pending that it waits on.
"""

from __future__ import annotations

import torch

from minfer.executor.kv_cache import KVCache
from minfer.executor.memory import check_host_blocks, num_blocks
from minfer.executor.results import to_host
from minfer.model import Decoder, Functions
from minfer.resolve import resolve
from minfer.types import Plan, Sampled, StepResult
from minfer.weights import load_decoder


class LocalExecutor:
    """Owns the model, the cache's memory, the inputs and the runner."""

    usage = None  # the blocks part knows

    def __init__(self, config, stage, block_size: int):
        functions = Functions(**{slot: resolve(slot, getattr(stage, slot)) for slot in Functions._fields})
        self.kv_bytes_per_token = config.model.kv_bytes_per_token(config.dtype)
        self.model = self._load(config, functions)
        self.num_blocks = self._num_blocks(config, block_size)
        check_host_blocks(config, block_size)
        self.num_host_blocks = config.num_host_blocks
        self.cache = KVCache(config, self.num_blocks, self.num_host_blocks, block_size)
        self.inputs = resolve("inputs", stage.inputs)(config, block_size)
        sample = resolve("sample", stage.sample)
        self.runner = resolve("runner", stage.runner)(self.model, self.cache.layers(), self.inputs, sample, config)
        self.runner.warm_up()
        self.copies = CopiesOut(config.max_num_seqs) if config.device.type == "cuda" else None

    def _load(self, config, functions: Functions) -> Decoder:
        return load_decoder(config.path, config.model, functions, config.dtype, config.device, config.max_model_len)

    def _num_blocks(self, config, block_size: int) -> int:
        return num_blocks(config, block_size)

    @torch.inference_mode()
    def launch(self, plan: Plan) -> LocalPending:
        self.cache.copy(plan.copies)
        return LocalPending(plan, self.runner.run(self.inputs.build(plan)), self.copies)

    def close(self) -> None:
        self.model = self.cache = self.inputs = self.runner = None


class CopiesOut:
    """Pinned memory for the sampled tokens, twice: one step's copy may be on its way while the host reads that of the one before."""

    def __init__(self, num_rows: int):
        self.ids = [torch.empty(num_rows, dtype=torch.int64, pin_memory=True) for _ in range(2)]
        self.done = [torch.cuda.Event() for _ in range(2)]
        self.turn = 0

    def start(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.cuda.Event]:
        """Begin to copy ids [S] int64 → where they will be on the host, and the event that says when."""
        self.turn ^= 1
        there, done = self.ids[self.turn][: len(ids)], self.done[self.turn]
        there.copy_(ids, non_blocking=True)
        done.record()
        return there, done


class LocalPending:
    """A step whose tensors may still be on their way. At most two may be pending at a time."""

    def __init__(self, plan: Plan, result: StepResult, copies: CopiesOut | None = None):
        self.plan, self.done = plan, None
        if copies is not None:
            ids, self.done = copies.start(result.next_ids)
            result = result._replace(next_ids=ids)
        self.result = result

    def wait(self) -> Sampled:
        if self.done is not None:
            self.done.synchronize()
        return to_host(self.plan, self.result)
