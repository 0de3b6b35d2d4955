"""Every stage on one workload: how fast each is, what its K/V cache costs, and whether its tokens are the baseline's.

From: the stages that this machine can run. To: `minfer ladder` and `minfer demo`, as a table or a report.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from minfer.bench.profile import StepProfile, profile_decode, time_decode
from minfer.bench.run import Run, median_speed, run_workload, warm_up
from minfer.bench.workload import Workload
from minfer.choice import best_stage
from minfer.engine import Stats
from minfer.hf_model import hide_loading_bars
from minfer.llm import LLM
from minfer.resolve import ignored_slots, why_not
from minfer.stages import HF, LADDER, Stage, find_stage

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
        return median_speed(self.runs)

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
            "requests": len(self.runs[0].token_ids),
            "output_tok_s": self.tokens_per_s,
            "tokens_per_s": self.tokens_per_s,
            "ttft_ms": self.ttft_ms,
            "peak_kv_mib": self.stats.peak_kv_bytes / MIB,
            "kv_wasted_percent": 100 * self.stats.kv_wasted,
            "steps": self.stats.num_steps,
            "preemptions": self.stats.num_preemptions,
            "tokens_equal_baseline": self.all_equal,
            "decode": [dataclasses.asdict(profile) for profile in self.decode],
            "repeats": [{**run.describe(), "equal_requests": n, **self._tokens(run)} for run, n in zip(self.runs, equal, strict=True)],
        }

    def _tokens(self, run: Run) -> dict:
        """The baseline's, as digests: so that a climb which is resumed can compare with it."""
        return {"token_digests": run.token_digests} if self.stage.name == HF.name else {}


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
    keep: Callable[[list[StageResult]], None] = lambda results: None,
    slow_requests: int | None = None,
    baseline: list[list[int]] | None = None,
) -> list[StageResult]:
    """Run the workloads, one after the other, through every stage. One engine is alive at a time.

    Args:
        path: folder of the checkpoint.
        stages: in any order; the baseline goes first, since the others are compared with it.
        workloads: one for each repeat. They should differ, or a prefix cache answers the second from the first.
        options: of LLM.
        swap: parts to put into every stage that calls them.
        announce: called with a stage's name before it runs.
        keep: called with all results so far, whenever there is more to know: a long climb may be cut short.
        slow_requests: so many requests only, for the stages whose every kernel is launched by the host; None: all.
        baseline: the digests of the baseline's tokens in each run, from an earlier climb.
    """
    hide_loading_bars()
    results: list[StageResult] = []
    for stage in sorted(stages, key=lambda each: each.name != HF.name):
        announce(stage.name)
        ignored = ignored_slots(stage)
        parts = {slot: part for slot, part in dict(swap or {}).items() if slot not in ignored}
        count = slow_requests if stage.runner == HF.runner else None
        asked = [workload.first(count) for workload in workloads]
        results.append(run_stage(path, stage.with_parts(**parts), asked, options, baseline))
        if stage.name == HF.name:
            baseline = [run.token_digests for run in results[-1].runs]
        keep(results)
    return results


def profile_stages(
    path: Path, stages: list[dict], options: Mapping[str, object], announce: Callable[[str], None], keep: Callable[[list[dict]], None]
) -> list[dict]:
    """Described stages, with launches and GPU-busy share in the decode steps that were timed (on a GPU) and not yet profiled.

    It comes after all that is timed, since PyTorch's profiler slows what runs after it.
    """
    for i, described in enumerate(stages):
        if all(step["launches_per_step"] is not None for step in described["decode"]):
            continue
        announce(f"{described['name']}, profiled")
        with opened(path, find_stage(described["name"]).with_parts(**described["parts"]), options) as llm:
            steps = [dataclasses.asdict(profile_decode(llm, StepProfile(**step))) for step in described["decode"]]
        stages = [*stages[:i], {**described, "decode": steps}, *stages[i + 1 :]]
        keep(stages)
    return stages


@contextmanager
def opened(path: Path, stage: Stage, options: Mapping[str, object]) -> Iterator[LLM]:
    """An engine, whose memory is given back at the end. transformers' model stays on one device."""
    if stage.executor == HF.executor:
        options = {name: value for name, value in options.items() if name not in ("tensor_parallel_size", "executor", "ray_address")}
    with LLM(str(path), stage=stage, **options) as llm:
        yield llm
    del llm
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def batches_to_time(llm: LLM) -> list[int]:
    """Sizes of decode steps to look at: on a GPU one sequence, and as many as run at once."""
    return sorted({1, llm.config.max_num_seqs}) if llm.config.device.type == "cuda" else []


def run_stage(
    path: Path, stage: Stage, workloads: list[Workload], options: Mapping[str, object], baseline: list[list[int]] | None
) -> StageResult:
    """Build one engine, warm it up, run the workloads, and time its decode steps."""
    start = time.perf_counter()
    with opened(path, stage, options) as llm:
        load_seconds = time.perf_counter() - start
        run_workload(llm, warm_up(llm, workloads[0].first(2 * llm.config.max_num_seqs)))
        runs = [run_workload(llm, workload) for workload in workloads]
        stats, config = llm.stats(), llm.config
        decode = tuple(timed for batch in batches_to_time(llm) if (timed := time_decode(llm, batch)) is not None)
    digests = [run.token_digests for run in runs]
    compared = digests if stage.name == HF.name else baseline
    equal = None
    if compared and len(compared[0]) == len(digests[0]):
        equal = [sum(mine == theirs for mine, theirs in zip(*pair, strict=True)) for pair in zip(digests, compared, strict=True)]
    return StageResult(stage, config.dtype, load_seconds, runs, stats, equal, decode)


def with_ratios(stages: list[dict]) -> list[dict]:
    """Described stages, each with how many times as fast it is as the baseline, and as the one before it; None where there is none."""
    baseline = next((stage["tokens_per_s"] for stage in stages if stage["name"] == HF.name), None)
    described, before = [], None
    for stage in stages:
        speed = stage["tokens_per_s"]
        ratios = {"times_baseline": baseline and speed / baseline, "times_before": before and speed / before}
        described.append({**stage, **ratios})
        before = speed
    return described
