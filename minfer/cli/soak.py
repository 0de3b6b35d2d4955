"""`minfer bench soak`.

From: the command line. To: `minfer/bench/soak.py`; a line a minute to stderr, the end to stdout, and whole into a report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minfer.cli.console import note
from minfer.cli.options import LLMOptions, with_options
from minfer.cli.workload import heading

SMALL = LLMOptions(
    model="dummy:tiny",
    dtype="float32",
    max_model_len=96,
    max_num_seqs=8,
    max_num_batched_tokens=64,
    num_kv_blocks=14,
)


@with_options(engine=SMALL)
def soak(
    *,
    seconds: Annotated[float, typer.Option(min=0, help="How long requests go on to come.")] = 300,
    requests: Annotated[int, typer.Option(min=1, help="Different requests to draw from.")] = 200,
    seed: Annotated[int, typer.Option(help="Of the requests and of when they come.")] = 0,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the counts and the faults.")] = None,
    engine: LLMOptions,
) -> None:
    """Random requests, aborts and preemptions in little room; every request must get the tokens of an engine with ample room.

    Exits with 1 where one does not, or where a block is not given back.
    """
    from minfer.bench.report import check_writable, write_json
    from minfer.bench.soak import Soak
    from minfer.bench.soak_requests import make_cases

    if report is not None:
        check_writable(report)
    with engine.open() as llm:
        options = {"dtype": llm.config.dtype, "device": llm.config.device}
        cases = make_cases(engine.model, requests, llm.engine.max_len, seed, options)
        note(f"{len(cases)} requests, {requests - len(cases)} left out for near ties")
        tally = Soak(llm, cases, seed).run(seconds, announce=note)
        stage = llm.stage.name
    typer.echo(f"stage {stage}, {tally.line()}, {tally.idle_checks} times at rest")
    for fault in tally.faults:
        typer.echo(fault)
    if report is not None:
        facts = {"stage": stage, "requests": len(cases), "near_ties": requests - len(cases), "seed": seed}
        write_json(report, {"kind": "soak", **heading(engine), **facts, **tally.describe()})
        note(f"wrote {report}")
    if not tally.well:
        raise typer.Exit(1)
