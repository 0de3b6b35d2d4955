"""The numbers of chapter 4, computed: those of its self-checks and those that its text predicts."""

from __future__ import annotations

import json
from pathlib import Path

from minfer.blocks.paged import PagedBlocks
from minfer.course.toy_run import plans_of, sequence
from minfer.policy.fcfs import policy
from minfer.preemption.recompute import Recompute
from minfer.scheduler.continuous import ContinuousScheduler
from minfer.scheduler.static import StaticScheduler
from minfer.testing.toy import toy_config

FIVE = [(0, 4, 30), (0, 4, 10), (0, 4, 10), (0, 4, 10), (0, 4, 20)]
LADDER = Path(__file__).parents[2] / "benchmarks" / "results" / "ladder-cpu.json"


def static_steps() -> int:
    """Four rows, five requests of 4 prompt tokens that want 30, 10, 10, 10 and 20 tokens: steps of static batching?"""
    return len(plans_of(StaticScheduler, FIVE, rows=4))


def continuous_steps() -> int:
    """The same five requests: steps of continuous batching?"""
    return len(plans_of(ContinuousScheduler, FIVE, rows=4))


def tokens_after_preemption() -> int:
    """A prompt of 100 tokens, 40 output tokens, preempted with its K/V dropped: tokens of the step that brings it back?"""
    scheduler = ContinuousScheduler(toy_config(max_num_seqs=1), PagedBlocks(20, 16), policy, Recompute())
    seq = sequence(0, 140, 10)
    seq.num_prompt = 100
    scheduler.add(seq)
    return scheduler.schedule().work[0].num_new


def weights_mb() -> float:
    """MB of SmolLM2-135M's weights in float32: what a decode step reads, whatever the batch holds."""
    hidden, layers, kv, mlp, vocab = 576, 30, 3 * 64, 1536, 49152
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * mlp + 2 * hidden
    return 4 * (vocab * hidden + layers * layer + hidden) / 1e6


def _steps_of(scheduler: type) -> int:
    """Steps of the three workloads of the CPU ladder, four rows."""
    workloads = json.loads(LADDER.read_text(encoding="utf-8"))["workloads"]
    arrivals = [[(0, *sizes) for sizes in zip(each["prompt_tokens"], each["max_tokens"], strict=True)] for each in workloads]
    return sum(len(plans_of(scheduler, each, rows=4, budget=512)) for each in arrivals)


def ladder_static_steps() -> int:
    """Steps of the ladder's three workloads with static batching?"""
    return _steps_of(StaticScheduler)


def ladder_continuous_steps() -> int:
    """Steps of the ladder's three workloads with continuous batching?"""
    return _steps_of(ContinuousScheduler)


def ladder_tokens() -> int:
    """Output tokens of the ladder's three workloads."""
    return sum(sum(each["max_tokens"]) for each in json.loads(LADDER.read_text(encoding="utf-8"))["workloads"])


def ladder_least_steps() -> int:
    """Steps for the ladder's output tokens if all four places were full in every step."""
    return -(-ladder_tokens() // 4)


def static_empty_percent() -> float:
    """Percent of the places in the batch, four a step, that are empty with static batching."""
    return 100 * (1 - ladder_tokens() / (4 * ladder_static_steps()))


def continuous_empty_percent() -> float:
    """Percent of the places that are empty with continuous batching: at the end of each workload nobody is left to fill them."""
    return 100 * (1 - ladder_tokens() / (4 * ladder_continuous_steps()))


def predicted_speedup() -> float:
    """Steps of static over steps of continuous batching: the speed-up if all steps took equally long."""
    return ladder_static_steps() / ladder_continuous_steps()


def measured_speedup() -> float:
    """Output tokens a second of the stage continuous over those of the stage paged, from the CPU ladder."""
    speeds = {stage["name"]: stage["tokens_per_s"] for stage in json.loads(LADDER.read_text(encoding="utf-8"))["stages"]}
    return speeds["continuous"] / speeds["paged"]
