"""`minfer ladder`: every stage on one workload, in one table.

From: the command line. To: `minfer/bench/ladder.py`; its results to stdout, whole into a report, and as a picture.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.console import note, print_table
from minfer.cli.options import EngineOptions, Shape, with_options, with_shape
from minfer.cli.workload import WorkloadName
from minfer.stages import HF, STAGES, find_stage

if TYPE_CHECKING:
    from minfer.bench.workload import Workload
    from minfer.model_config import ModelConfig

MAX_MODEL_LEN = 512  # else the stages that reserve a sequence's whole length up front would reserve the model's
PROMPT_LEN = (8, 128)
REQUESTS = 12  # of a mixed workload
STEP = ["ms/step", "launches/step", "GPU busy %"]  # of decode steps, measured on a GPU
NUMBERS = ["tokens/s", "times hf", "TTFT ms", "peak KV MiB", "KV wasted %"]


@with_options(engine=EngineOptions(max_num_seqs=4))
def ladder(
    *,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all that is known after each stage.")] = None,
    picture: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it, as .svg, .png or .pdf.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep the stages that the report has, and run the others.")] = False,
    stages: Annotated[str | None, typer.Option(help="Only these, as in hf,paged; otherwise all that run here.")] = None,
    workload: Annotated[WorkloadName, typer.Option(help="w1 and w2 are the same everywhere.")] = "mixed",
    shape: Shape = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests; otherwise 12, or all of w1 or w2.")] = None,
    slow_requests: Annotated[int | None, typer.Option(min=1, help="Only so many for the stages before CUDA graphs.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each stage, with other prompts each time.")] = 3,
    max_tokens: Annotated[int, typer.Option(min=1, help="Output tokens of the longest mixed request.")] = 64,
    workload_seed: Annotated[int, typer.Option(help="Seed of the prompts and lengths of mixed requests.")] = 0,
    engine: EngineOptions,
) -> None:
    """Compare the stages: speed, latency, K/V memory, and whether their tokens equal the baseline's.

    All requests arrive at once; prompts are random tokens. --max-model-len is 512 unless it is given, or what the model has; with w1
    or w2 it is what these need.
    """
    from minfer.bench import ladder as bench
    from minfer.bench.plot import check_matplotlib, plot_ladder
    from minfer.bench.report import check_writable, header, write_json
    from minfer.bench.workload import NAMED
    from minfer.hub import find_model
    from minfer.model_config import ModelConfig

    engine = with_shape(engine, shape)
    chosen, refused = bench.runnable(engine.device)
    if stages is not None:
        chosen, refused = [find_stage(name.strip()) for name in stages.split(",")], {}
    if picture is not None:
        check_matplotlib()
    for path in filter(None, (report, picture)):
        check_writable(path)
    model_path = find_model(engine.model, engine.revision)
    model = ModelConfig.load(model_path)
    if workload == "mixed":
        options = with_max_model_len(engine, model)
        workloads = mixed_workloads(requests or REQUESTS, max_tokens, model, options["max_model_len"], workload_seed, repeats)
    else:
        options = {"max_model_len": NAMED[workload].max_model_len, **engine.for_config()}
        first = NAMED[workload].make(model.vocab_size).first(requests)
        workloads = [first.shifted(repeat, model.vocab_size) for repeat in range(repeats)]
    content = {
        "kind": "ladder",
        **header(),
        "model": engine.model,
        "options": {**options, "swap": engine.swaps(), "slow_requests": slow_requests},
        "workload": workload,
        "workloads": [each.describe() for each in workloads],
        "not_run": [{"name": name, "why_not": why} for name, why in refused.items()],
    }
    kept = stages_of(report, content) if resume else {}
    content["stages"] = list(kept.values())
    chosen = [stage for stage in chosen if stage.name not in kept]

    def keep(described: list[dict]) -> None:
        done = {**kept, **{stage["name"]: stage for stage in described}}
        content["stages"] = bench.with_ratios([done[name] for name in STAGES if name in done])
        if report is not None:
            write_json(report, content)

    def announce(name: str) -> None:
        note(f"running {name}")

    bench.climb(
        model_path, chosen, workloads, options, engine.swaps(), announce, lambda results: keep([each.describe() for each in results]),
        slow_requests, baseline_of(kept),
    )  # fmt: skip
    bench.profile_stages(model_path, content["stages"], options, announce, keep)
    show(content["stages"], list(refused))
    if report is not None:
        note(f"wrote {report}")
    if picture is not None:
        plot_ladder(content["stages"], f"{engine.model}, workload {workload}, {options['max_num_seqs']} sequences at once", picture)
        note(f"wrote {picture}")


def mixed_workloads(requests: int, max_tokens: int, model: ModelConfig, limit: int, seed: int, repeats: int) -> list[Workload]:
    """One for each repeat, each with prompts and lengths of its own."""
    from minfer.bench.workload import mixed

    prompt_len = (PROMPT_LEN[0], max(PROMPT_LEN[0], min(PROMPT_LEN[1], limit - max_tokens)))
    output_len = (max(1, max_tokens // 8), max_tokens)
    return [mixed(requests, prompt_len, output_len, model.vocab_size, limit, seed + repeat) for repeat in range(repeats)]


def stages_of(report: Path | None, content: dict) -> dict[str, dict]:
    """What an earlier report has of the same measurement, by stage.

    Raises:
        BadParameter: there is no report, or it is of something else.
    """
    if report is None:
        raise typer.BadParameter("--resume goes on with a report: name it with --json", param_hint="--resume")
    if not report.is_file():
        return {}
    found = json.loads(report.read_text())
    for key in ("kind", "commit", "hardware", "versions", "model", "options", "workload", "workloads"):
        if found.get(key) != json.loads(json.dumps(content[key])):
            raise typer.BadParameter(f"{report} has another {key!r}; write a new report, without --resume", param_hint="--resume")
    return {stage["name"]: stage for stage in found["stages"]}


def baseline_of(kept: dict[str, dict]) -> list[list[int]] | None:
    """The digests of the baseline's tokens, in each run; None where they are not known."""
    runs = kept.get(HF.name, {}).get("repeats", [])
    return [run["token_digests"] for run in runs if "token_digests" in run] or None


def with_max_model_len(engine: EngineOptions, model: ModelConfig) -> dict:
    """The engine's options, with a limit of MAX_MODEL_LEN tokens (fewer if the model has fewer) where none was given."""
    return {"max_model_len": min(MAX_MODEL_LEN, model.max_context), **engine.for_config()}


def show(stages: list[dict], refused: list[str]) -> None:
    """The table of the ladder, of described stages, and beneath it the names of those that this machine cannot run."""
    batches = list(dict.fromkeys(profile["batch"] for stage in stages for profile in stage["decode"]))
    on_gpu = [f"{head}, batch {batch}" for batch in batches for head in STEP]
    print_table(
        "The ladder",
        ["stage", "swaps", *NUMBERS, *on_gpu, "tokens equal to baseline"],
        [row(stage, batches) for stage in stages],
        [*NUMBERS, *on_gpu],
    )
    if refused:
        note(f"not run on this machine: {', '.join(refused)}; `minfer stages` says why")


def row(facts: dict, batches: list[int]) -> list[object]:
    """One stage's line."""
    decode = {profile["batch"]: profile for profile in facts["decode"]}
    return [
        facts["name"],
        facts["part"] and facts["part"].replace("minfer.", ""),
        f"{facts['tokens_per_s']:.1f}",
        facts["times_baseline"] and f"{facts['times_baseline']:.2f}",
        f"{facts['ttft_ms']:.0f}",
        f"{facts['peak_kv_mib']:.1f}",
        f"{facts['kv_wasted_percent']:.0f}",
        *(cell for batch in batches for cell in step_cells(decode.get(batch))),
        equality(facts),
    ]


def step_cells(profile: dict | None) -> list[str | None]:
    """What is known of a stage's decode steps."""
    if profile is None or profile["gpu_busy"] is None:
        return [profile and f"{profile['ms_per_step']:.2f}", None, None]
    return [f"{profile['ms_per_step']:.2f}", f"{profile['launches_per_step']:.0f}", f"{100 * profile['gpu_busy']:.0f}"]


def equality(facts: dict) -> str | None:
    """yes or no in float32; in shorter types, where near ties may fall either way, the share of requests that are equal."""
    equal = facts["tokens_equal_baseline"]
    if equal is None:
        return None
    if facts["dtype"] == "float32":
        return "yes" if equal else "no"
    return f"{sum(each['equal_requests'] for each in facts['repeats'])} of {facts['requests'] * len(facts['repeats'])}"
