"""`minfer bench throughput --workload w1`: a fixed workload, all at once or by and by, repeated.

From: `cli/bench.py`. To: `minfer/bench/throughput.py`; its results to stdout, and whole into a report.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from minfer.cli.console import note, print_table
from minfer.cli.options import LLMOptions

if TYPE_CHECKING:
    from minfer.bench.run import Run
    from minfer.bench.workload import Range

WorkloadName = Literal["mixed", "w1", "w2"]
Arrival = Literal["all", "poisson"]
REQUESTS = 16  # of a mixed workload
LIMITS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size")
COLUMNS = ["run", "seconds", "output tokens/s", "steps", "preemptions", "TTFT ms p50", "p90", "p99", "later token ms p50", "p90", "p99"]


def check_rate(arrival: Arrival, rate: float | None) -> float | None:
    """The rate, which must be given for a Poisson process and for nothing else."""
    if (arrival == "poisson") != (rate is not None):
        raise typer.BadParameter("--arrival poisson and --rate R go together", param_hint="--rate")
    return rate


def run(
    name: WorkloadName,
    engine: LLMOptions,
    requests: int | None,
    ranges: tuple[Range, Range],
    repeats: int,
    seed: int,
    rate: float | None,
    report: Path | None,
) -> None:
    """Run it, show each repeat and the median, and write the report."""
    from minfer.bench.report import write_json
    from minfer.bench.run import median_speed
    from minfer.bench.throughput import repeat_workload
    from minfer.bench.workload import NAMED, mixed

    if name != "mixed":
        engine = dataclasses.replace(engine, max_model_len=engine.max_model_len or NAMED[name].max_model_len)
    begin = time.perf_counter()
    with engine.open() as llm:
        startup = {"construction": time.perf_counter() - begin, "since_process_start": age_of_process()}
        vocab_size = llm.config.model.vocab_size
        if name == "mixed":
            workload = mixed(requests or REQUESTS, *ranges, vocab_size, llm.engine.max_len, seed)
        else:
            workload = NAMED[name].make(vocab_size).first(requests)
        runs = repeat_workload(llm, workload, repeats, rate, note)
        config, stage = llm.config, llm.stage.name
    dtype = str(config.dtype).removeprefix("torch.")
    speed = median_speed(runs)
    arrive = "all at once" if rate is None else f"{rate:g} a second"
    print_table(
        f"{name}, {len(workload.prompts)} requests, {arrive}: stage {stage}, {dtype} on {config.device}, {config.max_num_seqs} "
        f"sequences side by side; {startup['construction']:.1f} s to start; median {speed:.0f} tokens/s",
        COLUMNS,
        [line(str(i), each) for i, each in enumerate(runs, start=1)],
        COLUMNS,
    )
    if report is not None:
        facts = {"workload": name, "stage": stage, "output_tok_s": speed, "rate": rate, "dtype": dtype, "startup_s": startup}
        facts |= {limit: getattr(config, limit) for limit in LIMITS}
        write_json(report, {"kind": "workload", **heading(engine), **facts, **described(runs), "requests": workload.describe()})
        note(f"wrote {report}")


def heading(engine: LLMOptions) -> dict:
    """What a report says first: the machine, the model, and what the engine was built with."""
    from minfer.bench.report import header

    options = {**engine.for_config(), "swap": engine.swaps()}
    return {**header(), "model": engine.model, "options": options}


def described(runs: list[Run]) -> dict:
    """Steps and preemptions of the run in the middle, and every repeat."""
    from minfer.bench.run import median_run

    middle = median_run(runs)
    return {"steps": middle.steps, "preemptions": middle.preemptions, "repeats": [run.describe() for run in runs]}


def line(name: str, run: Run) -> list[object]:
    """A row of the table. Later tokens: each one's own time where they were streamed, else a request's mean."""
    facts = run.describe()
    spread = facts["percentiles"]
    times = [spread.get("ttft_ms", {}), spread.get("itl_ms", spread.get("tpot_ms", {}))]
    cells = [f"{each[p]:.1f}" if p in each else None for each in times for p in ("p50", "p90", "p99")]
    return [name, f"{run.seconds:.2f}", f"{run.tokens_per_s:.0f}", run.steps, run.preemptions, *cells]


def age_of_process() -> float:
    """Seconds since this process was started, imports included."""
    import psutil

    return time.time() - psutil.Process().create_time()
