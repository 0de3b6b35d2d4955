"""The slots of the engine: what a part must offer, one Protocol a slot, in the order in which a step passes them.

Stateful parts are classes, mathematics is plain functions. A function gets everything as arguments. `minfer.stages` names the
part that fills each slot; `minfer.resolve` checks a part against this page before it is used.

Shapes: T new tokens of B sequences in a step, S of them sampled; H hidden, V vocabulary; Hq query heads, Hkv K/V heads, D head
size; N blocks of `block_size` tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import torch

from minfer.types import Batch, Bucket, Copy, Plan, Request, Sampled, Sequence, StepResult
from minfer.usage import KVUsage

if TYPE_CHECKING:
    from minfer.config import EngineConfig
    from minfer.stages import Stage

KV = tuple[torch.Tensor, torch.Tensor]  # one layer's K and V: [N, block_size, Hkv, D] each


class Executor(Protocol):
    """Runs plans on one device or on many. Built once per engine; loads the model."""

    num_blocks: int  # K/V blocks it has room for, the padding block 0 included
    num_host_blocks: int  # K/V blocks in host memory, for preemption.swap
    kv_bytes_per_token: int
    usage: KVUsage | None  # of a cache that it manages itself; None where the `blocks` part manages it

    def __init__(self, config: EngineConfig, stage: Stage, block_size: int): ...

    def launch(self, plan: Plan) -> Pending:
        """Start a step and return at once where the device can run beside the host."""
        ...

    def close(self) -> None: ...


class Pending(Protocol):
    """A step in flight."""

    def wait(self) -> Sampled: ...


class Loop(Protocol):
    """Drives the four verbs: schedule, launch, wait, commit. Ends when no work is left. Yields the sequences that moved."""

    def __call__(self, scheduler: Scheduler, executor: Executor) -> Iterator[list[Sequence]]: ...


class Scheduler(Protocol):
    """Decides what each step computes. `minfer/scheduler/base.py` does the bookkeeping for those that derive from it."""

    num_steps: int
    num_preemptions: int
    usage: KVUsage

    def __init__(self, config: EngineConfig, blocks: Blocks, policy: Policy, preemption: Preemption): ...
    def add(self, seq: Sequence) -> None: ...
    def abort(self, seq_id: int, reason: str = "abort") -> None: ...
    def schedule(self) -> Plan | None: ...
    def commit(self, plan: Plan, sampled: Sampled) -> list[Sequence]: ...
    def has_work(self) -> bool: ...


class PolicyContext(Protocol):
    """What a policy may look at besides the sequence."""

    blocks: Blocks
    served: dict[str, int]  # tokens computed so far, by Request.user


class Policy(Protocol):
    """Who is admitted first: a sort key, lower first. A policy whose keys change while a sequence waits sets `changes = True`."""

    def __call__(self, seq: Sequence, context: PolicyContext) -> tuple: ...


class Preemption(Protocol):
    """What happens to the K/V of a sequence that must give way."""

    def __init__(self, num_host_blocks: int): ...

    def evict(self, seq: Sequence, blocks: Blocks) -> list[Copy]:
        """Take the sequence's blocks away. Sets num_computed to what will not need computing again."""
        ...

    def restore(self, seq: Sequence, blocks: Blocks) -> list[Copy]:
        """Before it runs again: its blocks are allocated; say which copies bring its K/V back."""
        ...

    def drop(self, seq: Sequence) -> None:
        """It ends without running again."""
        ...


class Blocks(Protocol):
    """Hands out the K/V cache's blocks. Block 0 is the padding block and is never handed out."""

    block_size: int
    copies: list[Copy]  # that the next plan must carry, in order; the scheduler adds those of preemption, and empties it

    @staticmethod
    def size_of_block(config: EngineConfig) -> int:
        """Tokens in a block."""
        ...

    def __init__(self, num_blocks: int, block_size: int): ...

    @property
    def num_free(self) -> int: ...

    @property
    def num_total(self) -> int: ...

    def lookup(self, seq: Sequence) -> int:
        """How many of its first tokens `match` would find; takes nothing."""
        ...

    def match(self, seq: Sequence) -> int:
        """Give it the blocks of its cache_salt that hold its first tokens → how many; with prompt_logprobs, none."""
        ...

    def allocate(self, seq: Sequence, num_tokens: int, keep: int = 0) -> bool:
        """Make its block table long enough for num_tokens, leaving `keep` blocks free; all or nothing."""
        ...

    def commit(self, seq: Sequence) -> None:
        """Its tokens up to num_computed are in the cache and known: they may be shared from now on."""
        ...

    def free(self, seq: Sequence) -> None: ...


class Inputs(Protocol):
    """Turns a plan into tensors."""

    def __init__(self, config: EngineConfig, block_size: int): ...

    def build(self, plan: Plan) -> Batch:
        """What the host knows of a step; tensors on the host."""
        ...

    def send(self, batch: Batch | None, bucket: Bucket | None = None) -> Batch:
        """To the device. With a bucket: filled up to it by padding, in memory that never moves. No batch: nothing but padding."""
        ...

    def expand(self, batch: Batch) -> Batch:
        """What the device adds: identity where the host sent everything. Can be recorded."""
        ...

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        """Keep the sampled tokens [S] on the device, where a later step looks for them. Can be recorded."""
        ...


class Runner(Protocol):
    """Runs the model on a batch."""

    def __init__(self, model, kv: list[KV], inputs: Inputs, sample: Sample, config: EngineConfig): ...
    def warm_up(self) -> None: ...
    def run(self, batch: Batch) -> StepResult: ...  # of what `inputs.build` gave; the next run may write over the result


class Linear(Protocol):
    """It may carry `pack(weight) -> weight`: applied to each weight once, after loading; `linear` then gets what `pack` returned."""

    def __call__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x [T, I], weight [O, I], bias [O] or None → [T, O]."""
        ...


class Norm(Protocol):
    def __call__(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """r = x + residual (x where residual is None); y = r / sqrt(mean(r²) + eps) * weight → (y, r), all [T, H].

        It may write into x and residual; callers use only what it returns.
        """
        ...


class WriteKV(Protocol):
    def __call__(
        self,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        kv: KV,
        slots: torch.Tensor,
        q_norm: torch.Tensor | None,
        k_norm: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        """q/k norm where the model has it, rotary embedding, then K and V into their slots → the rotated q [T, Hq, D].

        q [T, Hq, D], k and v [T, Hkv, D] (views of one fused product, so not contiguous), cos and sin [T, D / 2] float32,
        slots [T] int64, q_norm and k_norm [D] or None. Halves are rotated as transformers does (first with second half).
        """
        ...


class Attention(Protocol):
    def __call__(self, q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
        """Causal attention of each new token over its own sequence's pages → [T, Hq, D].

        q [T, Hq, D]. A token at position p sees positions max(0, p - window + 1) .. p; window None sees all. Hq / Hkv query heads
        share a K/V head. The batch may mix decode rows and prefill chunks.
        """
        ...


class Activation(Protocol):
    def __call__(self, gate_up: torch.Tensor) -> torch.Tensor:
        """[T, 2 I] → silu(first half) * second half, [T, I]. It may write into gate_up."""
        ...


class Sample(Protocol):
    def __call__(self, logits: torch.Tensor, batch: Batch) -> torch.Tensor:
        """logits [S, V], any float dtype, may be written to → ids [S] int64, as batch.sampling asks."""
        ...


SLOTS: dict[str, type] = {
    "executor": Executor,
    "loop": Loop,
    "scheduler": Scheduler,
    "policy": Policy,
    "preemption": Preemption,
    "blocks": Blocks,
    "inputs": Inputs,
    "runner": Runner,
    "linear": Linear,
    "norm": Norm,
    "write_kv": WriteKV,
    "attention": Attention,
    "activation": Activation,
    "sample": Sample,
}

__all__ = ["KV", "SLOTS", "Pending", "Request", *(protocol.__name__ for protocol in SLOTS.values())]
