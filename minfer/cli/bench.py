"""`minfer bench throughput` and `minfer bench latency`.

From: the command line. To: `minfer/bench`; its results to stdout, and whole into a report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minfer.cli import workload
from minfer.cli.console import note, print_table
from minfer.cli.options import LLMOptions, Shape, with_options, with_shape
from minfer.cli.workload import Arrival, WorkloadName

Report = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all that was measured.")]
Repeats = Annotated[int, typer.Option(min=1, help="Runs, with other prompts each time; medians are shown.")]
Seed = Annotated[int, typer.Option(help="Seed of prompts and lengths.")]

PROMPT_LENS = [16, 128, 512]
THROUGHPUT = ["requests", "minfer tokens/s", "transformers tokens/s", "ratio", "minfer TTFT ms", "same tokens"]
LATENCY = ["prompt tokens", "first token ms", "later tokens ms"]


@with_options(engine=LLMOptions())
def throughput(
    *,
    workload_name: Annotated[WorkloadName, typer.Option("--workload", help="w1 and w2 are the same everywhere.")] = "mixed",
    shape: Shape = None,
    arrival: Annotated[Arrival, typer.Option(help="All requests at once, or a Poisson process of --rate.")] = "all",
    rate: Annotated[float | None, typer.Option(help="Requests a second that arrive.")] = None,
    requests: Annotated[int | None, typer.Option(min=1, help="Requests; otherwise 16, or all of w1 or w2.")] = None,
    prompt_len: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Tokens of a prompt.")] = "16:256",
    output_len: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Tokens that a request asks for.")] = "16:128",
    baseline: Annotated[bool, typer.Option(help="Compare mixed requests with transformers' generate.")] = True,
    batch_size: Annotated[int, typer.Option(min=1, help="Requests in a static batch of the baseline.")] = 8,
    repeats: Repeats = 3,
    workload_seed: Seed = 0,
    report: Report = None,
    engine: LLMOptions,
) -> None:
    """Tokens a second: of mixed requests and of one alone, beside transformers in the same run; or of a fixed workload."""
    from minfer.bench import throughput as bench

    ranges = length_range(prompt_len, "--prompt-len"), length_range(output_len, "--output-len")
    rate = workload.check_rate(arrival, rate)
    prepare(report)
    engine = with_shape(engine, shape)
    if workload_name != "mixed" or rate is not None:
        return workload.run(workload_name, engine, requests, ranges, repeats, workload_seed, rate, report)
    with engine.open() as llm:
        size = batch_size if baseline else None
        contests = bench.throughput(llm, requests or workload.REQUESTS, *ranges, repeats, workload_seed, size, note)
        config, stage = llm.config, llm.stage
    dtype = str(config.dtype).removeprefix("torch.")
    print_table(
        f"Throughput of {stage.name}, {dtype} on {config.device}, medians of {repeats}",
        THROUGHPUT,
        [
            [
                len(contest.workloads[0].prompts),
                f"{contest.our_speed:.1f}",
                contest.their_speed and f"{contest.their_speed:.1f}",
                contest.ratio and f"{contest.ratio:.2f}",
                f"{contest.ttft_ms:.0f}",
                None if contest.equal_share is None else f"{contest.equal_share:.0%}",
            ]
            for contest in contests
        ],
        THROUGHPUT,
    )
    used = {"stage": stage.name, "dtype": dtype, "batch_size": batch_size if baseline else None}
    facts = {"workload": "mixed", "output_tok_s": contests[0].our_speed}
    save(report, "throughput", engine, used, facts, [each.describe() for each in contests])


@with_options(engine=LLMOptions())
def latency(
    *,
    prompt_len: Annotated[list[int], typer.Option(min=1, help="Tokens of the prompt; may be repeated.")] = PROMPT_LENS,
    output_len: Annotated[int, typer.Option(min=2, help="Tokens that each request asks for.")] = 32,
    shape: Shape = None,
    repeats: Repeats = 5,
    workload_seed: Seed = 0,
    report: Report = None,
    engine: LLMOptions,
) -> None:
    """Time to the first token, and time of each later one, for one request at a time."""
    from minfer.bench import latency as bench

    prepare(report)
    engine = with_shape(engine, shape)
    with engine.open() as llm:
        results = [each.describe() for each in bench.latency(llm, prompt_len, output_len, repeats, workload_seed)]
        used = {"stage": llm.stage.name, "dtype": str(llm.config.dtype).removeprefix("torch.")}
    print_table(
        f"Latency of {used['stage']}, one request at a time, medians of {repeats}",
        LATENCY,
        [[each["prompt_tokens"], f"{each['ttft_ms']:.1f}", f"{each['tpot_ms']:.1f}"] for each in results],
        LATENCY,
    )
    save(report, "latency", engine, used, {"workload": "latency"}, results)


def length_range(text: str, option: str) -> tuple[int, int]:
    """LOW:HIGH, or one number for both."""
    low, colon, high = text.partition(":")
    try:
        return int(low), int(high if colon else low)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not LOW:HIGH, as in 16:256", param_hint=option) from None


def prepare(report: Path | None) -> None:
    """Find out before the work whether its report can be written."""
    from minfer.bench.report import check_writable

    if report is not None:
        check_writable(report)


def save(report: Path | None, kind: str, engine: LLMOptions, used: dict, facts: dict, results: list[dict]) -> None:
    """Write the report, if one is wanted. `used` are options as they came to be, `facts` what else stands at its top."""
    from minfer.bench.report import header, write_json

    if report is not None:
        options = {**engine.for_config(), "swap": engine.swaps(), **used}
        content = {"kind": kind, **header(), "model": engine.model, "options": options, "stage": used["stage"]}
        write_json(report, {**content, **facts, "results": results})
        note(f"wrote {report}")
