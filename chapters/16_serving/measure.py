"""Measures chapter 16: real schedulers and policies on a pretended device, under requests that come by a Poisson process.

    python chapters/16_serving/measure.py

The device needs 4 ms for a step of up to 200 tokens, then 0.02 ms a token; 64 sequences run at once. Nothing depends on this machine's
speed, so the numbers are the same everywhere. Half a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import numpy

from minfer.bench.report import header, write_json
from minfer.bench.simulated import Times, arrivals, simulate
from minfer.policy import fcfs, shortest_job, shortest_prompt
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.scheduler.continuous import ContinuousScheduler

REQUESTS = 2000
RATES = (20, 40, 60, 70, 80, 90, 100)
OBJECTIVE = 200  # ms: a first token that comes later is of no use to anybody
BUSY = 90  # requests a second at which policies are compared
CALM = 70  # and at which schedulers are
BUDGETS = [("continuous", ContinuousScheduler, 4096), *(("chunked", ChunkedScheduler, budget) for budget in (2048, 512, 256, 128))]


def impatient(seq, context) -> tuple:
    """Shortest job first, whoever waits."""
    return (seq.limit - seq.num_computed, seq.seq_id)


POLICIES: dict[str, Callable] = {
    "first come, first served": fcfs.policy,
    "shortest prompt": shortest_prompt.policy,
    "shortest job, no patience": impatient,
    "shortest job, with patience": shortest_job.policy,
}


def describe(times: list[Times]) -> dict:
    """Times to first token and between tokens in ms (the longest in s), tokens a second, and requests a second in time."""
    ttft = [each.ttft for each in times]
    gaps = [gap for each in times for gap in each.gaps]
    seconds = max(each.tokens[-1] for each in times) / 1e3
    return {
        "mean_ms": fmean(ttft),
        "p99_ms": float(numpy.percentile(ttft, 99)),
        "max_s": max(ttft) / 1e3,
        "short_ms": fmean(each.ttft for each in times if each.job.prompt <= 256),
        "long_ms": fmean(each.ttft for each in times if each.job.prompt > 256),
        "gap_p50_ms": float(numpy.percentile(gaps, 50)),
        "gap_p99_ms": float(numpy.percentile(gaps, 99)),
        "gap_max_ms": max(gaps),
        "tokens_per_s": sum(len(each.tokens) for each in times) / seconds,
        "goodput": sum(each <= OBJECTIVE for each in ttft) / seconds,
    }


def table(columns: dict[str, str], formats: dict[str, str], rows: list[dict]) -> dict:
    return {"columns": columns, "formats": formats, "rows": rows}


def main() -> None:
    rates = [{"rate": rate, **describe(simulate(arrivals(REQUESTS, rate)))} for rate in RATES]
    budgets = [
        {"stage": name, "budget": budget, **describe(simulate(arrivals(REQUESTS, CALM), scheduler=scheduler, budget=budget))}
        for name, scheduler, budget in BUDGETS
    ]
    policies = [{"policy": name, **describe(simulate(arrivals(REQUESTS, BUSY), policy=policy))} for name, policy in POLICIES.items()]
    waits = {"mean_ms": "mean time to first token, ms", "p99_ms": "p99, ms"}
    good = {"goodput": f"within {OBJECTIVE} ms, requests a second"}
    shown = dict.fromkeys(("mean_ms", "p99_ms", "short_ms", "long_ms", "goodput"), ",.0f")
    report = {
        "kind": "chapter",
        **header(),
        "rates": table(
            {"rate": "requests a second", **waits, **good, "tokens_per_s": "tokens a second"},
            {"rate": "d", **shown, "tokens_per_s": ",.0f"},
            rates,
        ),
        "budgets": table(
            {
                "stage": "scheduler",
                "budget": "budget, tokens",
                "gap_p50_ms": "between tokens, p50, ms",
                "gap_p99_ms": "p99, ms",
                "gap_max_ms": "longest, ms",
                "mean_ms": "mean time to first token, ms",
            },
            {"stage": "s", "budget": ",d", "gap_p50_ms": ".1f", "gap_p99_ms": ".1f", "gap_max_ms": ".1f", **shown},
            budgets,
        ),
        "policies": table(
            {"policy": "policy", **waits, "max_s": "longest, s", "short_ms": "mean, short", "long_ms": "mean, long", **good},
            {"policy": "s", **shown, "max_s": ".1f"},
            policies,
        ),
    }
    write_json(Path(__file__).with_name("measured.json"), report)


if __name__ == "__main__":
    main()
