"""Where a step's time goes: the host by verb, the device by kernel, and how near the step comes to the least that memory allows.

From: an engine. To: `minfer bench profile`, as tables, a report and a trace.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from minfer.bench.profile import WARM, Activity, recorder
from minfer.bench.steady import decoding, prefill, seconds_of, synchronize
from minfer.bench.stopwatch import Stopwatch
from minfer.bench.timeline import Timeline
from minfer.bench.timing import copy_rate
from minfer.llm import LLM
from minfer.model_config import ModelConfig
from minfer.shard import Shard

COMMUNICATES = re.compile("all_?reduce|all_?gather|^push$", re.IGNORECASE)
PROFILED = 8  # decode steps
REPEATS = 3  # of the prefill


@dataclass(frozen=True)
class Phase:
    """Steps of one kind. Times are of steps without the profiler; the activity was recorded afterwards."""

    name: str
    sequences: int
    tokens: int  # computed in a step
    ms_per_step: float
    verbs_ms: dict[str, float]  # of ms_per_step, on the host: schedule, launch, wait, commit, and the engine's rest
    activity: Activity

    @property
    def communication_us(self) -> float:
        """Of a step's kernels, those in which the ranks add up and put together: with the time that they wait for each other."""
        return sum(kernel.microseconds for kernel in self.activity.kernels if COMMUNICATES.search(kernel.name))

    @property
    def device_busy(self) -> float | None:
        """Share of the step in which some kernel runs; None without a GPU."""
        return min(1.0, self.activity.device_ms / self.ms_per_step) if self.activity.device_ms else None

    def describe(self) -> dict:
        """For a report."""
        facts = {"name": self.name, "sequences": self.sequences, "tokens": self.tokens, "ms_per_step": self.ms_per_step}
        share = self.communication_us / 1e3 / self.ms_per_step
        facts |= {"communication_us": self.communication_us, "communication_share": share}
        return {**facts, "verbs_ms": self.verbs_ms, "device_busy": self.device_busy, **self.activity.describe()}


@dataclass(frozen=True)
class Breakdown:
    """A decode step and a prefill step, and the floor of the first."""

    context: int  # tokens in the cache of each sequence, in the middle of the timed steps
    weight_bytes: int
    kv_bytes: int
    copy_rate: float  # bytes a second, read and written together
    decode: Phase
    prefill: Phase
    timeline: Timeline  # of some of the decode steps that were profiled

    @property
    def floor_ms(self) -> float:
        """What it takes to move the weights and all K and V once, at the rate of a copy."""
        return 1e3 * (self.weight_bytes + self.kv_bytes) / self.copy_rate

    @property
    def share_of_floor(self) -> float:
        """1 is as fast as memory allows."""
        return self.floor_ms / self.decode.ms_per_step

    def describe(self) -> dict:
        """For a report."""
        return {
            "context": self.context,
            "weight_bytes": self.weight_bytes,
            "kv_bytes": self.kv_bytes,
            "copy_gb_per_s": self.copy_rate / 1e9,
            "floor_ms": self.floor_ms,
            "share_of_floor": self.share_of_floor,
            "phases": [self.decode.describe(), self.prefill.describe()],
            "timeline": self.timeline.describe(),
        }


def break_down(llm: LLM, batch: int, context: int, steps: int, trace: Path | None = None) -> Breakdown:
    """Time and then profile `steps` decode steps of `batch` sequences, and the prefill of as many prompts as fit in one step.

    Args:
        context: tokens of each prompt.
        trace: where to write what the profiler recorded, in Chrome's format.

    Raises:
        MinferError: there is no room for the sequences.
    """
    length = WARM + steps
    prompts = max(1, min(batch, llm.config.max_num_batched_tokens // context))
    prefill(llm, prompts, context)  # a warm-up
    prefill_ms, prefill_verbs = time_prefill(llm, prompts, context)
    with decoding(llm, batch, context, length):
        seconds_of(llm, WARM)
        with Stopwatch(llm) as watch:
            decode_ms = 1e3 * seconds_of(llm, steps)
    rate = rate_of_copy(llm.config.device)
    with decoding(llm, batch, context, length) as names, recorder(llm, trace) as recording:
        with Stopwatch(llm), recording.mark("decode"):
            seconds_of(llm, min(steps, PROFILED))
        for name in names:
            llm.abort(name)
        with recording.mark("prefill"):
            prefill(llm, prompts, context)
    middle, model = context + WARM + steps // 2, model_of_a_rank(llm)
    seen = recording.activities
    return Breakdown(
        middle,
        weights_read(model) * llm.config.dtype.itemsize,
        batch * kv_bytes(model, llm.config.dtype, middle),
        rate,
        Phase("decode", batch, batch, decode_ms, watch.per_step(steps, decode_ms), seen["decode"]),
        Phase("prefill", prompts, prompts * context // seen["prefill"].steps, prefill_ms, prefill_verbs, seen["prefill"]),
        recording.timeline,
    )


def time_prefill(llm: LLM, prompts: int, context: int) -> tuple[float, dict[str, float]]:
    """Milliseconds of a step, and of each verb in it: of the repeat whose time is the median."""
    repeats = []
    for _ in range(REPEATS):
        before = llm.stats().num_steps
        with Stopwatch(llm) as watch:
            start = time.perf_counter()
            prefill(llm, prompts, context)
            synchronize(llm)
            seconds = time.perf_counter() - start
        steps = llm.stats().num_steps - before
        repeats.append((1e3 * seconds / steps, watch.per_step(steps, 1e3 * seconds / steps)))
    return sorted(repeats, key=lambda repeat: repeat[0])[REPEATS // 2]


def model_of_a_rank(llm: LLM) -> ModelConfig:
    """What one device reads in a step: the model, or a rank's part of it, its part of the head's vocabulary included."""
    shard = Shard(llm.config.model, 0, llm.config.tensor_parallel_size)
    return replace(shard.model, vocab_size=shard.vocab[1])


def weights_read(model: ModelConfig) -> int:
    """Weights that a step reads whole: all but the embeddings, of which it looks up single rows, unless they are the head too."""
    H, D = model.hidden_size, model.head_dim
    attention = 2 * H * D * (model.num_heads + model.num_kv_heads)
    return model.num_layers * (attention + 3 * H * model.intermediate_size + 2 * H) + H + model.vocab_size * H


def kv_bytes(model: ModelConfig, dtype: torch.dtype, context: int) -> int:
    """Bytes of K and V that one sequence's next token attends to; less than all of them in layers with a sliding window."""
    tokens = sum(min(context, window or context) for window in model.windows)
    return tokens * model.kv_bytes_per_token(dtype) // model.num_layers


def rate_of_copy(device: torch.device, repeats: int = 5, num_bytes: int = 2**26) -> float:
    """Bytes read and written a second by a plain elementwise operation on a large tensor."""
    if device.type == "cuda":
        return copy_rate(repeats)
    source = torch.randn(num_bytes // 4)
    target = torch.empty_like(source)
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        torch.add(source, 1.0, out=target)
        times.append(time.perf_counter() - start)
    return 2 * num_bytes / median(times[1:])
