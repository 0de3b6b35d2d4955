"""`minfer ladder`: every stage on one workload, in one table.

From: the command line. To: `minfer/bench/ladder.py`; its results to stdout, and whole into a report.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import note, print_table
from minfer.cli.options import EngineOptions, with_options
from minfer.stages import find_stage

if TYPE_CHECKING:
    from minfer.bench.ladder import StageResult
    from minfer.model_config import ModelConfig

MAX_MODEL_LEN = 512  # else the stages that reserve a sequence's whole length up front would reserve the model's
PROMPT_LEN = (8, 128)
STEP = ["ms/step", "launches/step", "GPU busy %"]  # of decode steps, measured on a GPU
NUMBERS = ["tokens/s", "TTFT ms", "peak KV MiB", "KV wasted %"]


@with_options(engine=EngineOptions(max_num_seqs=4))
def ladder(
    *,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all that was measured.")] = None,
    stages: Annotated[str | None, typer.Option(help="Only these, as in hf,paged; otherwise all that run here.")] = None,
    requests: Annotated[int, typer.Option(min=1, help="Requests of mixed length.")] = 12,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each stage, with other prompts each time.")] = 3,
    max_tokens: Annotated[int, typer.Option(min=1, help="Output tokens of the longest request.")] = 64,
    workload_seed: Annotated[int, typer.Option(help="Seed of prompts and lengths.")] = 0,
    engine: EngineOptions,
) -> None:
    """Compare the stages: speed, latency, K/V memory, and whether their tokens equal the baseline's.

    All requests arrive at once; prompts are random tokens. --max-model-len is 512 unless it is given, or what the model has.
    """
    from minfer.bench import ladder as bench
    from minfer.bench.report import check_writable, header, write_json
    from minfer.bench.workload import mixed
    from minfer.hub import find_model
    from minfer.model_config import ModelConfig

    chosen, refused = bench.runnable(engine.device)
    if stages is not None:
        chosen, refused = [find_stage(name.strip()) for name in stages.split(",")], {}
    if report is not None:
        check_writable(report)
    path = find_model(engine.model, engine.revision)
    model = ModelConfig.load(path)
    options = with_max_model_len(engine, model)
    limit = options["max_model_len"]
    prompt_len = (PROMPT_LEN[0], max(PROMPT_LEN[0], min(PROMPT_LEN[1], limit - max_tokens)))
    output_len = (max(1, max_tokens // 8), max_tokens)
    workloads = [mixed(requests, prompt_len, output_len, model.vocab_size, limit, workload_seed + repeat) for repeat in range(repeats)]
    results = bench.climb(path, chosen, workloads, options, engine.swaps(), announce=lambda name: note(f"running {name}"))
    show(results, refused)
    if report is not None:
        write_json(
            report,
            {
                "kind": "ladder",
                **header(),
                "model": engine.model,
                "options": {**options, "swap": engine.swaps()},
                "workloads": [workload.describe() for workload in workloads],
                "stages": [result.describe() for result in results],
                "not_run": [{"name": name, "why_not": why} for name, why in refused.items()],
            },
        )
        note(f"wrote {report}")


def with_max_model_len(engine: EngineOptions, model: ModelConfig) -> dict:
    """The engine's options, with a limit of MAX_MODEL_LEN tokens (fewer if the model has fewer) where none was given."""
    return {"max_model_len": min(MAX_MODEL_LEN, model.max_context), **engine.for_config()}


def show(results: list[StageResult], refused: dict[str, str]) -> None:
    """The table of the ladder, and beneath it the stages that this machine cannot run."""
    on_gpu = [f"{head}, batch {profile.batch}" for profile in results[0].decode for head in STEP]
    print_table(
        "The ladder",
        ["stage", "swaps", *NUMBERS, *on_gpu, "tokens equal to baseline"],
        [row(result) for result in results],
        [*NUMBERS, *on_gpu],
    )
    if refused:
        note(f"not run on this machine: {', '.join(refused)}; `minfer stages` says why")


def row(result: StageResult) -> list[object]:
    """One stage's line."""
    facts = result.describe()
    part = facts["part"] and facts["part"].replace("minfer.", "")
    return [
        facts["name"],
        part,
        f"{facts['tokens_per_s']:.1f}",
        f"{facts['ttft_ms']:.0f}",
        f"{facts['peak_kv_mib']:.1f}",
        f"{facts['kv_wasted_percent']:.0f}",
        *(
            text
            for profile in result.decode
            for text in (f"{profile.ms_per_step:.2f}", f"{profile.launches_per_step:.0f}", f"{100 * profile.gpu_busy:.0f}")
        ),
        equality(result),
    ]


def equality(result: StageResult) -> str | None:
    """yes or no in float32; in shorter types, where near ties may fall either way, the share of requests that are equal."""
    if result.equal is None:
        return None
    if result.dtype.itemsize >= 4:
        return "yes" if result.all_equal else "no"
    return f"{sum(result.equal)} of {result.num_requests}"
