"""The ladder: each stage is the previous one with exactly one part swapped.

A part is named by "module:Name" or "file.py:Name" and is imported only when an engine is built with it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from minfer.errors import MinferError


@dataclass(frozen=True)
class Stage:
    """One part for every slot. The field names are the slots of `minfer/parts.py`."""

    name: str
    executor: str
    loop: str
    scheduler: str
    policy: str
    preemption: str
    blocks: str
    inputs: str
    runner: str
    linear: str
    norm: str
    write_kv: str
    attention: str
    activation: str
    sample: str

    def parts(self) -> dict[str, str]:
        """The part in each slot."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "name"}

    def differs(self, other: Stage) -> list[str]:
        """The slots that two stages fill differently."""
        return [slot for slot, part in self.parts().items() if getattr(other, slot) != part]

    def swap(self, name: str, **part: str) -> Stage:
        """The next stage: this one with exactly one slot filled differently."""
        stage = self.with_parts(name, **part)
        if len(stage.differs(self)) != 1:
            raise MinferError(f"stage {name!r} must swap exactly one part of {self.name!r}; it swaps {stage.differs(self)}")
        return stage

    def with_parts(self, name: str | None = None, **parts: str) -> Stage:
        """Any number of parts replaced: for mixes that stand off the ladder, and for a reader's own parts."""
        unknown = sorted(set(parts) - set(self.parts()))
        if unknown:
            raise MinferError(f"no slot is called {', '.join(unknown)}; the slots are {', '.join(self.parts())}")
        return replace(self, name=name or self.name, **parts)


HF = Stage(
    name="hf",
    executor="minfer.executor.hf:HFExecutor",
    loop="minfer.loop.plain:loop",
    scheduler="minfer.scheduler.static:StaticScheduler",
    policy="minfer.policy.fcfs:policy",
    preemption="minfer.preemption.recompute:Recompute",
    blocks="minfer.blocks.contiguous:ContiguousBlocks",
    inputs="minfer.inputs.host:HostInputs",
    runner="minfer.runner.eager:EagerRunner",
    linear="minfer.linear.torch:linear",
    norm="minfer.norm.torch:add_rms_norm",
    write_kv="minfer.write_kv.torch:write_kv",
    attention="minfer.attention.torch:attention",
    activation="minfer.activation.torch:silu_mul",
    sample="minfer.sample.torch:sample",
)
DECODER = HF.swap("decoder", executor="minfer.executor.local:LocalExecutor")
PAGED = DECODER.swap("paged", blocks="minfer.blocks.paged:PagedBlocks")
CONTINUOUS = PAGED.swap("continuous", scheduler="minfer.scheduler.continuous:ContinuousScheduler")
CHUNKED = CONTINUOUS.swap("chunked", scheduler="minfer.scheduler.chunked:ChunkedScheduler")
TRITON = CHUNKED.swap("triton-attention", attention="minfer.attention.triton_decode:attention")
FUSED = TRITON.swap("fused-norm", norm="minfer.norm.triton:add_rms_norm")
GRAPHS = FUSED.swap("cuda-graphs", runner="minfer.runner.cuda_graph:CudaGraphRunner")
PREFIX = GRAPHS.swap("prefix-cache", blocks="minfer.blocks.prefix:PrefixBlocks")
ROPE = PREFIX.swap("fused-rope", write_kv="minfer.write_kv.triton:write_kv")
MLP = ROPE.swap("fused-mlp", activation="minfer.activation.triton:silu_mul")
PREFILL = MLP.swap("paged-prefill", attention="minfer.attention.triton_paged:attention")
RESIDENT = PREFILL.swap("resident", inputs="minfer.inputs.resident:ResidentInputs")
OVERLAPPED = RESIDENT.swap("overlapped", loop="minfer.loop.overlapped:loop")
MIXED = OVERLAPPED.swap("mixed-graphs", runner="minfer.runner.mixed_graph:MixedGraphRunner")
SAMPLING = MIXED.swap("fused-sampling", sample="minfer.sample.triton:sample")
LINEAR = SAMPLING.swap("small-linear", linear="minfer.linear.triton:linear")
INPUTS = LINEAR.swap("fused-inputs", inputs="minfer.inputs.triton:FusedInputs")

LADDER: tuple[Stage, ...] = (
    HF, DECODER, PAGED, CONTINUOUS, CHUNKED, TRITON, FUSED, GRAPHS, PREFIX, ROPE, MLP, PREFILL, RESIDENT, OVERLAPPED, MIXED,
    SAMPLING, LINEAR, INPUTS,
)  # fmt: skip

# Where the ladder goes on with many devices: `LLM` takes these stages only when it is asked for them.
TENSOR_PARALLEL = INPUTS.swap("tensor-parallel", executor="minfer.executor.processes:ProcessesExecutor")
RAY = TENSOR_PARALLEL.swap("ray", executor="minfer.executor.ray:RayExecutor")
TO_MANY_DEVICES: tuple[Stage, ...] = (*LADDER, TENSOR_PARALLEL, RAY)

# Off the ladder: the fastest mix of parts on a CPU, without a C++ compiler and with one.
CPU_TORCH = CHUNKED.with_parts("cpu-torch", blocks="minfer.blocks.prefix:PrefixBlocks", linear="minfer.linear.onednn:linear")
CPU = CPU_TORCH.swap("cpu", attention="minfer.attention.cpp:attention")

STAGES: dict[str, Stage] = {stage.name: stage for stage in (*TO_MANY_DEVICES, CPU_TORCH, CPU)}


def find_stage(name: str | Stage) -> Stage:
    """The stage of that name.

    Raises:
        MinferError: there is none; the message lists those that exist.
    """
    if isinstance(name, Stage):
        return name
    if name not in STAGES:
        raise MinferError(f"no stage is called {name!r}; the stages are {', '.join(STAGES)}")
    return STAGES[name]
