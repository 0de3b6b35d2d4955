"""`minfer bench serve`.

From: the command line, and a server that runs. To: `minfer/bench/serve.py`; its results to stdout, whole into a report, and a plot.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minfer.cli.bench import Seed, length_range
from minfer.cli.console import note, print_table
from minfer.cli.workload import REQUESTS, WorkloadName

if TYPE_CHECKING:
    from minfer.bench.serve_load import Load

COLUMNS = ["", "mean", "p50", "p90", "p99"]
ROWS = {
    "ttft_ms": "time to first token, ms",
    "itl_ms": "between tokens, ms",
    "tpot_ms": "a request's mean, ms",
    "request_ms": "request, ms",
}
BUSY = 0.8  # share of a core: a client that computes more may read late, and then it measures itself
NO_LIMIT = 2**31  # tokens, for servers that do not say how many they take


def serve(
    *,
    url: Annotated[str, typer.Option(help="The server's address.")] = "http://127.0.0.1:8000",
    model: Annotated[str | None, typer.Option(help="Its name there; otherwise the first that the server lists.")] = None,
    api_key: Annotated[str | None, typer.Option(envvar=["MINFER_API_KEY", "OPENAI_API_KEY"], help="Sent as a bearer token.")] = None,
    workload_name: Annotated[WorkloadName, typer.Option("--workload", help="w1 and w2 are the same everywhere.")] = "mixed",
    requests: Annotated[int | None, typer.Option(min=1, help="Requests; otherwise 16, or all of w1 or w2.")] = None,
    prompt_len: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Tokens of a prompt.")] = "16:256",
    output_len: Annotated[str, typer.Option(metavar="LOW:HIGH", help="Tokens that a request asks for.")] = "16:128",
    vocab_size: Annotated[int, typer.Option(min=2, help="Prompts have ids below it; no more than the model's.")] = 10001,
    workload_seed: Seed = 0,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for exactly so many tokens, as vLLM's option does.")] = True,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Requests kept open (a closed loop); otherwise 8.")] = None,
    rate: Annotated[float | None, typer.Option(help="Or requests a second that arrive, as a Poisson process.")] = None,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests sent before, with other ids.")] = 8,
    clients: Annotated[int | None, typer.Option(min=1, help="Processes that send; otherwise a quarter of the cores, up to 4.")] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds of silence after which a request is given up.")] = 600.0,
    slo_ttft_ms: Annotated[float | None, typer.Option(min=0, help="Goodput: time to first token of a good request, at most.")] = None,
    slo_tpot_ms: Annotated[float | None, typer.Option(min=0, help="Goodput: mean time of its later tokens, at most.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the waiting times: .svg or .png.")] = None,
    report: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write all that was measured.")] = None,
) -> None:
    """The load on a running server, minfer's or any OpenAI-compatible one: waiting times, throughput and goodput.

    A request that fails, also one that is turned away (HTTP 429), is counted and not sent again. Exits with 1 where none is answered.
    """
    import dataclasses

    from minfer.bench import serve as bench
    from minfer.bench.arrivals import poisson
    from minfer.bench.plot import check_matplotlib
    from minfer.bench.report import check_writable, header, write_json
    from minfer.bench.serve_load import Objective
    from minfer.bench.serve_plot import plot_load
    from minfer.bench.workload import NAMED, mixed

    if concurrency is not None and rate is not None:
        raise typer.BadParameter("--concurrency is a closed loop and --rate an open one; choose one", param_hint="--rate")
    for path in filter(None, (plot, report)):
        check_writable(path)
    if plot is not None:
        check_matplotlib()
    ranges = length_range(prompt_len, "--prompt-len"), length_range(output_len, "--output-len")
    server = bench.find_server(url, model, api_key)
    if workload_name == "mixed":
        workload = mixed(requests or REQUESTS, *ranges, vocab_size, server.max_model_len or NO_LIMIT, workload_seed)
    else:
        workload = NAMED[workload_name].make(vocab_size).first(requests)
    workload = dataclasses.replace(workload, ignore_eos=ignore_eos)
    streams = None if rate is not None else concurrency or min(8, len(workload.prompts))
    processes = clients or bench.default_clients()
    due = None if rate is None else poisson(len(workload.prompts), rate, workload_seed)
    if warm_up:
        note(f"warming up {server.model} at {server.url}")
        others = workload.first(warm_up).shifted(1, vocab_size)
        bench.load(server, others, concurrency=warm_up, timeout=timeout)
    note(f"sending {len(workload.prompts)} requests")
    load = bench.load(server, workload, concurrency=streams, due=due, clients=processes, timeout=timeout)
    objective = Objective(slo_ttft_ms, slo_tpot_ms)
    arrive = f"{streams} at a time" if rate is None else f"{rate:g} a second"
    title = f"{server.model} at {server.url}: {workload.name}, {len(workload.prompts)} requests, {arrive}"
    facts = load.describe(objective)
    show(title, load, facts)
    if report is not None:
        asked = {"url": server.url, "model": server.model, "workload": workload.name, "concurrency": streams, "rate": rate}
        asked["clients"] = len(load.busy)
        write_json(report, {"kind": "serve", **header(), **asked, **facts, "requests": workload.describe()})
        note(f"wrote {report}")
    if plot is not None:
        plot_load(load, objective, title, plot)
        note(f"wrote {plot}")


def show(title: str, load: Load, facts: dict) -> None:
    """The table of times, then the rates; on stderr what casts doubt on them."""
    times = [(name, facts["percentiles"][key], facts["means"][key]) for key, name in ROWS.items() if key in facts["percentiles"]]
    rows = [[name, f"{mean:.1f}", *(f"{spread[p]:.1f}" for p in COLUMNS[2:])] for name, spread, mean in times]
    print_table(title, COLUMNS, rows, COLUMNS[1:])
    line = f"{facts['seconds']:.2f} s, {facts['tokens_per_s']:.0f} output tokens/s, {facts['requests_per_s']:.2f} requests/s"
    if "slo" in facts:
        line += f", goodput {facts['goodput_requests_per_s']:.2f} requests/s ({facts['good_share']:.0%} of the requests)"
    typer.echo(line)
    for error, count in facts["errors"].items():
        note(f"{count} failed: {error}")
    if max(load.busy) > BUSY:
        note(f"a client process computed {max(load.busy):.0%} of the time, and so measured itself too; raise --clients")
