"""What one decode step costs on a GPU: its time, the launches that it takes, and the share of the time in which the GPU computes.

From: an engine. To: the ladder.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from minfer.llm import LLM
from minfer.params import SamplingParams

PROMPT = 16  # tokens
WARM, TIMED, PROFILED = 6, 16, 8  # decode steps


@dataclass(frozen=True)
class StepProfile:
    """Of decode steps with `batch` sequences; no step is profiled while it is timed."""

    batch: int
    ms_per_step: float
    launches_per_step: float  # kernels, graphs, copies and fills that the host starts
    gpu_busy: float  # share of ms_per_step in which some kernel runs


def profile_decode(llm: LLM, batch: int) -> StepProfile:
    """Run `batch` greedy sequences side by side and look at their decode steps."""
    limit = llm.engine.max_len
    vocab_size = llm.config.model.vocab_size
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=min(WARM + TIMED + PROFILED + 8, limit - PROMPT))
    names = [f"profile-{i}" for i in range(batch)]
    for i, name in enumerate(names):
        llm.add_request(name, [(7 * i + j) % vocab_size for j in range(PROMPT)], params, stream=False)
    while llm.engine.scheduler.waiting:
        llm.step()
    for _ in range(WARM):
        llm.step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(TIMED):
        llm.step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / TIMED
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(PROFILED):
            llm.step()
        torch.cuda.synchronize()
    for name in names:
        llm.abort(name)
    events = profiler.events()
    launches = sum(event.name.startswith(LAUNCHES) for event in events)
    spans = sorted((e.time_range.start, e.time_range.end) for e in events if e.device_type == torch.autograd.DeviceType.CUDA)
    return StepProfile(batch, 1e3 * seconds, launches / PROFILED, min(1.0, covered(spans) / PROFILED / (1e6 * seconds)))


LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync")


def covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals, given in the order of their starts."""
    total, end = 0.0, float("-inf")
    for first, last in spans:
        total += max(0.0, last - max(first, end))
        end = max(end, last)
    return total
