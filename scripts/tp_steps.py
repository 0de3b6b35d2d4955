"""Measures tensor parallelism: a token's time alone, decode steps with few and many sequences, and what an all-reduce costs.

    python scripts/tp_steps.py --model dummy:llama-8b --sizes 1,2 --json benchmarks/results/tp-llama-8b-gpu.json

One engine after the other, each of another number of ranks. For every number: the latency of one request, as `minfer bench latency`
measures it; and for each --batch the decode step, as `minfer bench profile` measures it, with the share in which the ranks add up.
"""

from __future__ import annotations

import gc
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import torch
import typer

from minfer import LLM
from minfer.bench.all_reduce import time_all_reduces
from minfer.bench.breakdown import break_down
from minfer.bench.latency import latency
from minfer.bench.profile import WARM
from minfer.bench.ranks import has_ranks
from minfer.bench.report import check_writable, header, write_json
from minfer.bench.steady import decoding, seconds_of


def main(
    model: str = "dummy:llama-8b",
    sizes: Annotated[str, typer.Option(help="Numbers of ranks; the first is what the others are compared with.")] = "1,2",
    batch: Annotated[list[int], typer.Option(help="Sequences of a decode step; repeatable.")] = [1, 128],  # noqa: B006
    context: Annotated[int, typer.Option(help="Tokens of each prompt of a decode step.")] = 512,
    prompt_len: Annotated[int, typer.Option(help="Tokens of the prompt whose latency is measured.")] = 512,
    output_len: int = 256,
    repeats: int = 3,
    steps: int = 32,
    device: str = "auto",
    report: Annotated[Path | None, typer.Option("--json", help="Write all that was measured.")] = None,
) -> None:
    """Milliseconds, and how many times faster than with the first number of ranks."""
    if report is not None:
        check_writable(report)
    results: list[dict] = []
    content = {"kind": "tensor-parallel", **header(), "command": shlex.join(["python", *sys.argv]), "model": model, "results": results}
    limit = max(prompt_len + output_len, context + 3 * steps) + 32
    for size in map(int, sizes.split(",")):
        begin = time.perf_counter()
        with LLM(model, tensor_parallel_size=size, device=device, max_model_len=limit, max_num_seqs=max(*batch, 8)) as llm:
            load_seconds = time.perf_counter() - begin
            figures = measure(llm, prompt_len, output_len, repeats, batch, context, steps)
            results.append({**figures, "load_seconds": load_seconds})
            content |= {"stage": llm.stage.name, "dtype": str(llm.config.dtype).removeprefix("torch.")}
        del llm
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        say(results[-1], results[0])
        if report is not None:
            write_json(report, content)


def measure(llm: LLM, prompt_len: int, output_len: int, repeats: int, batches: list[int], context: int, steps: int) -> dict:
    """All of one engine. Times come first, since the profiler slows what runs after it."""
    (alone,) = latency(llm, [prompt_len], output_len, repeats, seed=0)
    found = {"tensor_parallel_size": llm.config.tensor_parallel_size, "latency": alone.describe()}
    if has_ranks(llm):
        found["all_reduce"] = llm.engine.executor.ask(time_all_reduces)[0]
    times = [time_steps(llm, rows, context, steps) for rows in batches]
    profiles = [break_down(llm, rows, context, steps) for rows in batches]
    found["steps"] = [
        {"batch": rows, "ms_per_step": ms, "communication_share": each.decode.communication_us / 1e3 / ms, **each.describe()}
        for rows, ms, each in zip(batches, times, profiles, strict=True)
    ]
    return found


def time_steps(llm: LLM, rows: int, context: int, steps: int) -> float:
    """Milliseconds of a decode step."""
    with decoding(llm, rows, context, WARM + steps):
        seconds_of(llm, WARM)
        return 1e3 * seconds_of(llm, steps)


def say(mine: dict, first: dict) -> None:
    """One engine's figures, beside the first one's."""
    size, tpot = mine["tensor_parallel_size"], mine["latency"]["tpot_ms"]
    typer.echo(f"{size} ranks, alone: {tpot:.3f} ms a token, {first['latency']['tpot_ms'] / tpot:.2f} times the first")
    for step, other in zip(mine["steps"], first["steps"], strict=True):
        ms, between = step["ms_per_step"], step["phases"][0]["communication_us"]
        typer.echo(
            f"{size} ranks, batch {step['batch']}: {ms:.3f} ms a step, {other['ms_per_step'] / ms:.2f} times the first; "
            f"{between:.0f} µs or {step['communication_share']:.1%} of it between the ranks"
        )
    for row in mine.get("all_reduce", []):
        times = ", ".join(f"{name} {value:.1f}" for name, value in row.items() if name != "bytes")
        typer.echo(f"{size} ranks, all-reduce of {row['bytes']} bytes: {times}")


if __name__ == "__main__":
    typer.run(main)
