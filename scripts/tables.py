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
    speeds = [stage["tokens_per_s"] for stage in stages]
    has_baseline = stages[0]["name"] == "hf"
    heads = ["stage", "tokens/s", *["× `hf`", "× before"] * has_baseline, "time to first token, ms", "peak KV, MiB", "KV wasted"]
    for profile in stages[0].get("decode", []):
        heads += [f"ms a decode step, {profile['batch']} rows", "launches", "GPU busy"]
    compared = any(stage["tokens_equal_baseline"] is not None for stage in stages)
    heads += ["equals the baseline"] * compared
    rows = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1 - compared) + "|---" * compared + "|"]
    most = max(stage.get("requests", 0) for stage in stages)
    for stage, before in zip(stages, [None, *speeds[:-1]], strict=True):
        fewer = f" ({stage['requests']} requests)" if stage.get("requests", most) < most else ""
        cells = [f"`{stage['name']}`{fewer}", f"{stage['tokens_per_s']:.0f}"]
        if has_baseline:
            cells += [f"{stage['tokens_per_s'] / speeds[0]:.2f}", f"{stage['tokens_per_s'] / before:.2f}" if before else ""]
        cells += [f"{stage['ttft_ms']:.0f}", f"{stage['peak_kv_mib']:.1f}", f"{stage['kv_wasted_percent']:.0f} %"]
        for profile in stage.get("decode", []):
            seen = profile["gpu_busy"] is not None
            cells += [f"{profile['ms_per_step']:.2f}"]
            cells += [f"{profile['launches_per_step']:.0f}", f"{profile['gpu_busy']:.0%}"] if seen else ["", ""]
        if compared:
            cells += [{True: "yes", False: "no", None: ""}[stage["tokens_equal_baseline"]]]
        rows.append("| " + " | ".join(cells) + " |")
    fixed = report.get("workload", "mixed") != "mixed"
    what = f"workload `{report['workload']}`, {report['options']['max_num_seqs']} sequences at once; " if fixed else ""
    return [*rows, "", f"{report['model']}, {stages[0]['dtype']}; {what}{machine(report)}."]


def throughput(report: dict) -> list[str]:
    rows = ["| workload | minfer, tokens/s | transformers, tokens/s | ratio |", "|---|--:|--:|--:|"]
    for contest in report["results"]:
        theirs = contest["transformers"]["tokens_per_s"]
        requests = contest["workloads"][0]["requests"]
        what = f"{requests} requests of mixed length" if requests > 1 else "one request"
        rows.append(f"| {what} | {contest['minfer']['tokens_per_s']:.0f} | {theirs:.0f} | {contest['ratio']:.2f} |")
    options = report["options"]
    return [*rows, "", f"{report['model']}, {options['dtype']}, stage `{options['stage']}`; {machine(report)}."]


def workload(report: dict) -> list[str]:
    heads = ["workload", "sequences at once", "tokens/s, median", "of each repeat", "steps", "preemptions", "seconds to start"]
    cells = [f"`{report['workload']}`", f"{report['max_num_seqs']}", f"{report['output_tok_s']:.0f}"]
    cells += [", ".join(f"{run['tokens_per_s']:.0f}" for run in report["repeats"]), f"{report['steps']}", f"{report['preemptions']}"]
    cells += [f"{report['startup_s']['construction']:.1f}"]
    rows = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|", "| " + " | ".join(cells) + " |"]
    return [*rows, "", f"{report['model']}, {report['dtype']}, stage `{report['stage']}`; {machine(report)}."]


def latency(report: dict) -> list[str]:
    rows = ["| prompt tokens | first token, ms | each later token, ms |", "|--:|--:|--:|"]
    rows += [f"| {each['prompt_tokens']} | {each['ttft_ms']:.1f} | {each['tpot_ms']:.2f} |" for each in report["results"]]
    return [*rows, "", f"{report['model']}, {report['options']['dtype']}, stage `{report['options']['stage']}`; {machine(report)}."]


def decode_steps(report: dict) -> list[str]:
    names = list(report["results"][0]["stages"])
    heads = ["threads", "sequences", *(f"`{name}`, ms a step" for name in names), "ratio"]
    rows = ["| " + " | ".join(heads) + " |", "|" + "--:|" * len(heads)]
    for result in report["results"]:
        times = " | ".join(f"{stage['ms_per_step']:.1f}" for stage in result["stages"].values())
        rows.append(f"| {result['threads']} | {result['batch']} | {times} | {result['stages'][names[-1]]['speedup']:.2f} |")
    return [*rows, "", f"{report['model']}, {report['dtype']}, context {report['context']}; {machine(report)}."]


WRITERS = {"ladder": ladder, "throughput": throughput, "workload": workload, "latency": latency, "decode-steps": decode_steps}


def table(match: re.Match) -> str:
    report = json.loads((ROOT / "benchmarks" / "results" / f"{match[1]}.json").read_text())
    return f"<!-- table {match[1]} -->\n" + "\n".join(WRITERS[report["kind"]](report)) + "\n<!-- end -->"


def written(text: str) -> str:
    """The page with its tables as the reports have them."""
    return re.sub(r"<!-- table (\S+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text()
    if "--check" not in sys.argv:
        readme.write_text(written(text))
    elif written(text) != text:
        sys.exit("the tables of README.md are not what benchmarks/results says; `make tables` writes them")


if __name__ == "__main__":
    main()
