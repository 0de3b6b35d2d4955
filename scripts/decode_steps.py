"""Times the decode steps of several stages by turns in one process, so that a busy machine slows them alike.

    python scripts/decode_steps.py --stages cpu-torch,cpu --threads 2 --threads 1 --json benchmarks/results/attention-cpp-cpu.json

The contexts of a batch grow from half the steps short of `--context` to half of them beyond. A repeat's figure is its median step, a
stage's the median of its repeats. The stages need prefix caching, or every repeat computes the prompts again.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Annotated

import torch
import typer

from minfer import LLM, SamplingParams
from minfer.bench.report import check_writable, header, write_json
from minfer.bench.workload import mixed
from minfer.hub import DEFAULT_MODEL, find_model


def main(
    stages: Annotated[str, typer.Option(help="The first is what the others are compared with.")] = "cpu-torch,cpu",
    model: str = DEFAULT_MODEL,
    context: int = 1024,
    batch: Annotated[list[int], typer.Option(help="Sequences at once; repeatable.")] = [1, 8],  # noqa: B006
    threads: Annotated[list[int], typer.Option(help="Threads of PyTorch; repeatable.")] = [1],  # noqa: B006
    steps: Annotated[int, typer.Option(help="Timed in each repeat.")] = 16,
    repeats: int = 7,
    report: Annotated[Path | None, typer.Option("--json", help="Write all that was measured.")] = None,
) -> None:
    """Milliseconds a decode step, and tokens a second."""
    if report is not None:
        check_writable(report)
    facts = header()  # before the threads are changed
    path, limit = str(find_model(model)), context + 2 * steps
    sizes = {"device": "cpu", "max_model_len": limit, "max_num_seqs": max(batch), "num_kv_blocks": 2 * max(batch) * (limit // 16 + 1)}
    llms = {name: LLM(path, stage=name, **sizes) for name in stages.split(",")}
    results = []
    for each in threads:
        torch.set_num_threads(each)
        for rows in batch:
            results.append({"threads": each, **compare(llms, rows, context, steps, repeats)})
            for name, figures in results[-1]["stages"].items():
                typer.echo(
                    f"{each} threads, batch {rows}, {name}: {figures['ms_per_step']:.2f} ms a step, "
                    f"{figures['tokens_per_s']:.1f} tokens/s, {figures['speedup']:.2f} times the first"
                )
    if report is not None:
        dtype = str(next(iter(llms.values())).config.dtype).removeprefix("torch.")
        facts = {"kind": "decode-steps", **facts, "command": shlex.join(["python", *sys.argv]), "model": model, "dtype": dtype}
        threading = {name: value for name, value in os.environ.items() if name.startswith("OMP_")}
        write_json(report, {**facts, "environment": threading, "context": context, "steps": steps, "results": results})


def compare(llms: dict[str, LLM], rows: int, context: int, steps: int, repeats: int) -> dict:
    """Every stage in turn, `repeats` times, once its prefix cache holds the prompts."""
    prompt = context - steps // 2
    some = next(iter(llms.values()))
    prompts = mixed(rows, (prompt, prompt), (1, 1), some.config.model.vocab_size, some.engine.max_len).prompts
    for llm in llms.values():
        llm.generate(prompts, SamplingParams(max_tokens=1), progress=False)
    runs: dict[str, list[float]] = {name: [] for name in llms}
    for _ in range(repeats):
        for name, llm in llms.items():
            runs[name].append(1e3 * median(time_steps(llm, prompts, steps)))
    first = next(iter(runs.values()))
    figures = {
        name: {
            "ms_per_step": median(mine),
            "tokens_per_s": 1e3 * rows / median(mine),
            "speedup": median(theirs / own for theirs, own in zip(first, mine, strict=True)),
            "fastest_ms": min(mine),
            "repeats_ms": mine,
        }
        for name, mine in runs.items()
    }
    return {"batch": rows, "stages": figures}


def time_steps(llm: LLM, prompts: list[list[int]], steps: int) -> list[float]:
    """Seconds of each decode step after all prompts have their first token."""
    for row, ids in enumerate(prompts):
        llm.add_request(str(row), ids, SamplingParams(temperature=0, max_tokens=2 * steps, ignore_eos=True))
    begun: set[str] = set()
    while len(begun) < len(prompts):
        begun.update(output.request_id for output in llm.step() if output.outputs[0].token_ids)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        llm.step()
        times.append(time.perf_counter() - start)
    for row in range(len(prompts)):
        llm.abort(str(row))
    return times


if __name__ == "__main__":
    typer.run(main)
