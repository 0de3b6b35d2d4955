"""Writes the tables of README.md from the reports under benchmarks/results. `make tables` runs it; --check only compares.

A table stands between `<!-- table NAME -->` and `<!-- end -->`; NAME is the report's file without its ending.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def machine(report: dict) -> str:
    """One line on where the numbers come from."""
    hardware, versions = report["hardware"], report["versions"]
    where = ", ".join(gpu["name"] for gpu in hardware["gpus"]) or f"{hardware['cpu']}, {hardware['torch_threads']} threads"
    return f"{where}; torch {versions['torch']}, transformers {versions['transformers']}; commit {report['commit'][:8]}"


def ladder(report: dict) -> list[str]:
    stages = report["stages"]
    heads = ["stage", "tokens/s", "time to first token, ms", "peak KV, MiB", "KV wasted"]
    for profile in stages[0].get("decode", []):
        heads += [f"ms a decode step, {profile['batch']} rows", "launches", "GPU busy"]
    compared = any(stage["tokens_equal_baseline"] is not None for stage in stages)
    heads += ["equals the baseline"] * compared
    rows = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1 - compared) + "|---" * compared + "|"]
    for stage in stages:
        cells = [f"`{stage['name']}`", f"{stage['tokens_per_s']:.0f}", f"{stage['ttft_ms']:.0f}", f"{stage['peak_kv_mib']:.1f}"]
        cells += [f"{stage['kv_wasted_percent']:.0f} %"]
        for profile in stage.get("decode", []):
            cells += [f"{profile['ms_per_step']:.2f}", f"{profile['launches_per_step']:.0f}", f"{profile['gpu_busy']:.0%}"]
        if compared:
            cells += [{True: "yes", False: "no", None: ""}[stage["tokens_equal_baseline"]]]
        rows.append("| " + " | ".join(cells) + " |")
    return [*rows, "", f"{report['model']}, {stages[0]['dtype']}; {machine(report)}."]


def throughput(report: dict) -> list[str]:
    rows = ["| workload | minfer, tokens/s | transformers, tokens/s | ratio |", "|---|--:|--:|--:|"]
    for contest in report["results"]:
        theirs = contest["transformers"]["tokens_per_s"]
        requests = contest["workloads"][0]["requests"]
        what = f"{requests} requests of mixed length" if requests > 1 else "one request"
        rows.append(f"| {what} | {contest['minfer']['tokens_per_s']:.0f} | {theirs:.0f} | {contest['ratio']:.2f} |")
    options = report["options"]
    return [*rows, "", f"{report['model']}, {options['dtype']}, stage `{options['stage']}`; {machine(report)}."]


def decode_steps(report: dict) -> list[str]:
    names = list(report["results"][0]["stages"])
    heads = ["threads", "sequences", *(f"`{name}`, ms a step" for name in names), "ratio"]
    rows = ["| " + " | ".join(heads) + " |", "|" + "--:|" * len(heads)]
    for result in report["results"]:
        times = " | ".join(f"{stage['ms_per_step']:.1f}" for stage in result["stages"].values())
        rows.append(f"| {result['threads']} | {result['batch']} | {times} | {result['stages'][names[-1]]['speedup']:.2f} |")
    return [*rows, "", f"{report['model']}, {report['dtype']}, context {report['context']}; {machine(report)}."]


WRITERS = {"ladder": ladder, "throughput": throughput, "decode-steps": decode_steps}


def table(match: re.Match) -> str:
    report = json.loads((ROOT / "benchmarks" / "results" / f"{match[1]}.json").read_text())
    return f"<!-- table {match[1]} -->\n" + "\n".join(WRITERS[report["kind"]](report)) + "\n<!-- end -->"


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text()
    written = re.sub(r"<!-- table (\S+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)
    if "--check" not in sys.argv:
        readme.write_text(written)
    elif written != text:
        sys.exit("the tables of README.md are not what benchmarks/results says; `make tables` writes them")


if __name__ == "__main__":
    main()
