"""Every stage on one workload: how fast each is, what its K/V cache costs, and whether its tokens are the baseline's.

From: the stages that this machine can run. To: `minfer ladder` and `minfer demo`, as a table or a report.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from minfer.bench.hf_generate import hide_loading_bars
from minfer.bench.profile import StepProfile, profile_decode
from minfer.bench.run import Run, run_workload, warm_up
from minfer.bench.workload import Workload
from minfer.engine import Stats
from minfer.llm import LLM
from minfer.resolve import best_stage, ignored_slots, why_not
from minfer.stages import HF, LADDER, Stage

MIB = 2**20


@dataclass(frozen=True)
class StageResult:
    """One stage's runs, one for each workload, after a short warm-up."""

    stage: Stage
    dtype: torch.dtype
    load_seconds: float
    runs: list[Run]
    stats: Stats  # over all runs and the warm-up
    equal: list[int] | None  # requests with the baseline's tokens, in each run; None where the baseline was not run
    decode: tuple[StepProfile, ...] = ()  # on a GPU: decode steps with one sequence, and with as many as run at once

    @property
    def tokens_per_s(self) -> float:
        return median(run.tokens_per_s for run in self.runs)

    @property
    def ttft_ms(self) -> float:
        """Mean over the requests of a run, median over the runs."""
        return median(run.ttft_ms for run in self.runs)

    @property
    def num_requests(self) -> int:
        return sum(len(run.token_ids) for run in self.runs)

    @property
    def all_equal(self) -> bool | None:
        return None if self.equal is None else sum(self.equal) == self.num_requests

    def describe(self) -> dict:
        """For a report."""
        slots, parts = swaps(self.stage)
        equal = self.equal or [None] * len(self.runs)
        return {
            "name": self.stage.name,
            "swaps": slots,
            "part": parts,
            "parts": self.stage.parts(),
            "dtype": str(self.dtype).removeprefix("torch."),
            "load_seconds": self.load_seconds,
            "tokens_per_s": self.tokens_per_s,
            "ttft_ms": self.ttft_ms,
            "peak_kv_mib": self.stats.peak_kv_bytes / MIB,
            "kv_wasted_percent": 100 * self.stats.kv_wasted,
            "steps": self.stats.num_steps,
            "preemptions": self.stats.num_preemptions,
            "tokens_equal_baseline": self.all_equal,
            "decode": [dataclasses.asdict(profile) for profile in self.decode],
            "repeats": [{**run.describe(), "equal_requests": n} for run, n in zip(self.runs, equal, strict=True)],
        }


def swaps(stage: Stage) -> tuple[str | None, str | None]:
    """The slot that a stage of the ladder swaps, and the part that it puts there; (None, None) for the first.

    A mix that stands off the ladder may swap several, joined by ", "; it is compared with the stage that it is closest to.
    """
    if stage.name == LADDER[0].name:
        return None, None
    names = [each.name for each in LADDER]
    if stage.name in names:
        before = LADDER[names.index(stage.name) - 1]
    else:
        before = min(reversed(LADDER), key=lambda each: len(stage.differs(each)))
    slots = stage.differs(before)
    return ", ".join(slots), ", ".join(stage.parts()[slot] for slot in slots)


def runnable(device: str = "auto") -> tuple[list[Stage], dict[str, str]]:
    """The stages to compare here, and by name why the others cannot run. On a CPU, the mix made for it is one of them."""
    best, _ = best_stage(device)
    wanted = list(LADDER) if best in LADDER else [*LADDER, best]
    reasons = {stage.name: why_not(stage, device) for stage in wanted}
    return [stage for stage in wanted if reasons[stage.name] is None], {name: why for name, why in reasons.items() if why}


def climb(
    path: Path,
    stages: list[Stage],
    workloads: list[Workload],
    options: Mapping[str, object],
    swap: Mapping[str, str] | None = None,
    announce: Callable[[str], None] = lambda name: None,
) -> list[StageResult]:
    """Run the workloads, one after the other, through every stage. One engine is alive at a time.

    Args:
        path: folder of the checkpoint.
        stages: in any order; the baseline goes first, since the others are compared with it.
        workloads: one for each repeat. They should differ, or a prefix cache answers the second from the first.
        options: of LLM.
        swap: parts to put into every stage that calls them.
        announce: called with a stage's name before it runs.
    """
    hide_loading_bars()
    results: list[StageResult] = []
    baseline: list[Run] | None = None
    for stage in sorted(stages, key=lambda each: each.name != HF.name):
        announce(stage.name)
        ignored = ignored_slots(stage)
        parts = {slot: part for slot, part in dict(swap or {}).items() if slot not in ignored}
        results.append(run_stage(path, stage.with_parts(**parts), workloads, options, baseline))
        if stage.name == HF.name:
            baseline = results[-1].runs
    return results


def run_stage(
    path: Path, stage: Stage, workloads: list[Workload], options: Mapping[str, object], baseline: list[Run] | None
) -> StageResult:
    """Build one engine, warm it up, run the workloads, and give its memory back before returning."""
    start = time.perf_counter()
    with LLM(str(path), stage=stage, **options) as llm:
        load_seconds = time.perf_counter() - start
        run_workload(llm, warm_up(llm, workloads[0]))
        runs = [run_workload(llm, workload) for workload in workloads]
        stats, config = llm.stats(), llm.config
        # Last, since PyTorch's profiler slows what runs after it.
        batches = sorted({1, config.max_num_seqs}) if config.device.type == "cuda" else []
        decode = tuple(profile_decode(llm, batch) for batch in batches)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    compared = runs if stage.name == HF.name else baseline
    equal = [run.num_equal(other) for run, other in zip(runs, compared, strict=True)] if compared else None
    return StageResult(stage, config.dtype, load_seconds, runs, stats, equal, decode)
