"""The ladder's numbers, as they were measured: tables and bars for pages.

From: benchmarks/results/ladder-*.json. To: the start page, the pages of stages, the page on performance.
"""

from __future__ import annotations

import html
import json
import math
from pathlib import Path

import reports

COMMANDS = {
    "ladder-cpu": "minfer ladder --json ladder.json",
    "ladder-h200": "minfer ladder --requests 64 --max-num-seqs 64 --json ladder.json",
}
TITLES = {"ladder-cpu": "CPU", "ladder-h200": "NVIDIA H200"}
LADDERS = tuple(TITLES)


def load(root: Path, name: str) -> dict:
    return json.loads((root / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def speeds(report: dict) -> dict[str, float]:
    """Stage → output tokens a second."""
    return {stage["name"]: stage["tokens_per_s"] for stage in report["stages"]}


def command(report: dict, name: str) -> str:
    """What measures the report again, on a machine of the same kind."""
    if report.get("workload", "mixed") == "mixed":
        return COMMANDS[name]
    options = report["options"]
    shape = report["model"].removeprefix("dummy:")
    model = f"--shape {shape}" if shape != report["model"] else f"--model {shape}"
    return f"minfer ladder {model} --workload {report['workload']} --max-num-seqs {options['max_num_seqs']} --json ladder.json"


def bars(root: Path, name: str) -> str:
    """A bar a stage on a logarithmic scale, as HTML that fits a phone and both colour schemes."""
    report = load(root, name)
    found = speeds(report)
    low, high = min(found.values()) / 2, max(found.values())
    first = next(iter(found))
    rows, words = [], []
    for stage, speed in found.items():
        width = 100 * math.log(speed / low) / math.log(high / low)
        times = "" if stage == first else f" <small>{speed / found[first]:.1f} ×</small>"
        words.append(f"{stage} {speed:,.0f}")
        rows.append(
            f'<div class="bar"><span class="bar-name">{html.escape(stage)}</span><span class="bar-track">'
            f'<span class="bar-fill" style="width:{width:.1f}%"></span></span><span class="bar-value">{speed:,.0f}{times}</span></div>'
        )
    label = f"Output tokens a second on {TITLES[name]}, logarithmic: {', '.join(words)}"
    note = f"Output tokens a second, logarithmic; × is against <code>{first}</code>."
    return f'<div class="bars" role="img" aria-label="{label}">\n' + "\n".join(rows) + f'\n<p class="bars-note">{note}</p>\n</div>'


def glance(root: Path, name: str) -> str:
    """Bars, and where they come from."""
    return f"{bars(root, name)}\n\n{reports.ladder(load(root, name)).caption} {measured(root, name)}"


def section(root: Path, name: str) -> str:
    """Bars, table and command."""
    return f"{bars(root, name)}\n\n{reports.ladder(load(root, name)).markdown()}\n\n{measured(root, name)}"


def measured(root: Path, name: str) -> str:
    return f"Measured by `{command(load(root, name), name)}`; the numbers are in `benchmarks/results/{name}.json`."


def compared(root: Path, name: str, before: str | None, stage: str) -> str:
    """The rows of a stage and of the one before; words where the report does not have the stage."""
    report = load(root, name)
    found = speeds(report)
    reasons = {each["name"]: each["why_not"] for each in report.get("not_run", [])}
    if stage in reasons:
        return f"It cannot run on that machine: {reasons[stage]}."
    if stage not in found:
        return f"The committed report does not have this stage. `{command(report, name)}` measures it on your machine."
    rows = [each for each in (before, stage) if each in found]
    ratio = f" That is {found[stage] / found[before]:.2f} times the stage before." if before in found else ""
    table = reports.ladder(report).pick(stages=rows).markdown()
    return f"{table}\n\n{measured(root, name)}{ratio}"
