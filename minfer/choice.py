"""Which stage an engine is built from: the fastest here, or the one that was asked for, with parts swapped in.

From: the arguments of LLM and of the command line. To: `resolve.py`, which finds the stage's parts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from minfer.errors import MinferError, PartError
from minfer.resolve import is_cpu, machine, why_not, why_not_loaded
from minfer.stages import CPU, CPU_TORCH, DECODER, HF, LADDER, RAY, STAGES, TENSOR_PARALLEL, Stage

log = logging.getLogger(__name__)

LOCAL = DECODER.executor
MANY = {"processes": TENSOR_PARALLEL.executor, "ray": RAY.executor}  # executors on many devices


def best_stage(device: object = "auto") -> tuple[Stage, str]:
    """The fastest stage that this machine can run, and why it is that one.

    Without a GPU this builds the attention in C++, if it has not been built before. Where it cannot be, a warning says why.
    """
    on_cpu = "cuda" not in machine() or is_cpu(device)
    if on_cpu and why_not(CPU_TORCH) is None:
        reason = why_not(CPU) or why_not_loaded(CPU.attention)
        if reason is None:
            return CPU, "it is the fastest mix of parts without a GPU"
        log.warning("not the stage 'cpu' but 'cpu-torch', which is slower on long contexts: %s", reason)
        return CPU_TORCH, "it is the fastest mix of parts without a GPU and without parts in C++"
    stage = next(stage for stage in reversed(LADDER) if why_not(stage, device) is None)
    return stage, "it is the last stage of the ladder that this machine can run"


def with_executor(stage: Stage, executor: str | None, size: int) -> Stage:
    """The stage on many devices, where these are asked for and its executor runs on one.

    Raises:
        MinferError: no executor is called that, or the stage's model is not ours to cut.
    """
    if executor is None and (size == 1 or stage.executor not in (LOCAL, HF.executor)):
        return stage
    executor = "processes" if executor is None else executor
    if executor not in MANY:
        raise MinferError(f"executor={executor!r} is none of {', '.join(map(repr, MANY))}; leave it out for the stage's own")
    if stage.executor == HF.executor:
        raise MinferError(
            f"the stage {stage.name!r} runs transformers' own model, on one device; take a later stage, such as 'decoder', "
            f"for tensor_parallel_size={size}"
        )
    found = stage.with_parts(executor=MANY[executor])
    return next((each for each in STAGES.values() if each.parts() == found.parts()), found)


def with_swaps(stage: Stage, swap: Mapping[str, str] | None) -> Stage:
    """The stage with parts swapped in.

    Raises:
        PartError: `swap` is no mapping of slots to names. MinferError: there is no such slot.
    """
    if swap is None:
        return stage
    if not isinstance(swap, Mapping) or not all(isinstance(text, str) for pair in swap.items() for text in pair):
        raise PartError(f"swap={swap!r} must be a dict from slots to parts, such as {{'attention': 'mine.py:attention'}}")
    return stage.with_parts(**swap)
