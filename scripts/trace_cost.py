"""What recording costs: each stage that a CPU runs serves the ladder's workload with and without a recording, by turns.

    python scripts/trace_cost.py --json benchmarks/results/trace-cost-cpu.json

Which of the two goes first changes from pair to pair, and a stage's figure is the median of its pairs, so that a busy machine slows
both alike. The processor's time is told as well, since neighbours disturb it less than the clock's. A recording that has ended leaves
nothing behind (`tests/test_trace_replay.py`), so "without" is an engine as it always is.
"""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from minfer import LLM
from minfer.bench.ladder import runnable
from minfer.bench.report import check_writable, header, write_json
from minfer.bench.run import run_workload, warm_up
from minfer.bench.workload import Workload, mixed
from minfer.hub import DEFAULT_MODEL, find_model
from minfer.trace import record

MAX_LEN, SEQS, PROMPT_LEN, OUTPUT_LEN = 512, 4, (8, 128), (8, 64)  # those of `minfer ladder` on a CPU


def main(
    stages: Annotated[str, typer.Option(help="Names, between commas; otherwise all that a CPU runs.")] = "",
    model: str = DEFAULT_MODEL,
    requests: int = 12,
    pairs: Annotated[int, typer.Option(help="Runs with and without a recording, of each stage.")] = 7,
    report: Annotated[Path | None, typer.Option("--json", help="Write all that was measured.")] = None,
) -> None:
    """Percent of throughput, and of the processor's time, that a recording costs."""
    if report is not None:
        check_writable(report)
    path = str(find_model(model))
    results = []
    for stage in stages.split(",") if stages else [each.name for each in runnable("cpu")[0]]:
        with LLM(path, stage=stage, device="cpu", max_model_len=MAX_LEN, max_num_seqs=SEQS) as llm:
            work = mixed(requests, PROMPT_LEN, OUTPUT_LEN, llm.config.model.vocab_size, MAX_LEN)
            run_workload(llm, warm_up(llm, work))
            results.append({"stage": stage, **compare(llm, work, pairs)})
        wall, busy = results[-1]["cost_percent"], results[-1]["cpu_percent"]
        typer.echo(f"{stage}: {wall:.2f} % of the throughput, {busy:.2f} % of the processor's time")
    if report is not None:
        worst = max(each["cost_percent"] for each in results)
        facts = {"kind": "trace-cost", **header(), "command": shlex.join(["python", *sys.argv]), "model": model}
        write_json(report, {**facts, "workload": work.describe(), "pairs": pairs, "worst_percent": worst, "results": results})


def compare(llm: LLM, work: Workload, pairs: int) -> dict:
    """Pairs of runs, each on prompts of its own, so that no prefix cache answers one from another."""
    speeds: dict[bool, list[float]] = {False: [], True: []}
    busy: dict[bool, list[float]] = {False: [], True: []}
    ends = []
    for pair in range(pairs):
        for turn in (0, 1):
            recorded = (pair + turn) % 2 == 1
            mine = work.shifted(1 + 2 * pair + turn, llm.config.model.vocab_size)
            recording = record(llm) if recorded else None
            begun = time.process_time()
            run = run_workload(llm, mine)
            busy[recorded].append(time.process_time() - begun)
            speeds[recorded].append(run.tokens_per_s)
            if recording is not None:
                begun = time.perf_counter()
                recording.stop()
                ends.append(time.perf_counter() - begun)
    ratios = [on / off for off, on in zip(speeds[False], speeds[True], strict=True)]
    return {
        "tokens_per_s": median(speeds[False]),
        "tokens_per_s_recorded": median(speeds[True]),
        "cost_percent": 100 * (1 - median(ratios)),
        "cpu_percent": 100 * (median(on / off for off, on in zip(busy[False], busy[True], strict=True)) - 1),
        "cost_percent_of_pairs": [100 * (1 - ratio) for ratio in ratios],
        "end_ms": 1e3 * max(ends),  # once, when the recording ends and the trace is put together
    }


if __name__ == "__main__":
    typer.run(main)
