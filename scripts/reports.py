"""The tables that a report of each kind makes. From: `benchmarks/results/*.json`. To: `markers.py`, which puts them into pages.

A column has a key, by which a page may choose it (`columns=stage,speed`), and a head, which readers see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass
class Table:
    """Rows of cells by column key, and what stands below: where the numbers come from."""

    heads: dict[str, str]
    rows: list[dict[str, str]]
    caption: str = ""
    left: tuple[str, ...] = ()  # keys of the columns that are text

    def pick(self, columns: Sequence[str] = (), stages: Sequence[str] = (), slots: Sequence[str] = ()) -> Table:
        """Only those columns, and the rows of those stages or slots, in that order.

        Raises:
            ValueError: there is no such column, stage or slot; the message lists what there is.
        """
        rows = self.rows
        for key, wanted in (("stage", stages), ("slot", slots)):
            if wanted:
                names = [row.get(key, "").strip("`").partition("`")[0] for row in rows]
                kept = [_known(key, name, dict.fromkeys(names)) for name in wanted]
                rows = [row for name in kept for row, has in zip(rows, names, strict=True) if has == name]
        heads = {_known("column", key, self.heads): self.heads[key] for key in columns} if columns else self.heads
        return Table(heads, rows, self.caption, self.left)

    def markdown(self) -> str:
        lines = ["| " + " | ".join(self.heads.values()) + " |"]
        lines.append("|" + "".join("---|" if key in self.left else "--:|" for key in self.heads))
        lines += ["| " + " | ".join(row[key] for key in self.heads) + " |" for row in self.rows]
        return "\n".join([*lines, "", self.caption] if self.caption else lines)


def machine(report: dict) -> str:
    """One line on where the numbers come from."""
    hardware, versions = report["hardware"], report["versions"]
    where = ", ".join(gpu["name"] for gpu in hardware["gpus"]) or f"{hardware['cpu']}, {hardware['torch_threads']} threads"
    return f"{where}; torch {versions['torch']}, transformers {versions['transformers']}; commit {report['commit'][:8]}"


def ladder(report: dict) -> Table:
    stages = report["stages"]
    speeds = [stage["tokens_per_s"] for stage in stages]
    has_baseline = stages[0]["name"] == "hf"
    heads = {"stage": "stage", "speed": "tokens/s", **({"baseline": "× `hf`", "before": "× before"} if has_baseline else {})}
    heads |= {"ttft": "time to first token, ms", "kv": "peak KV, MiB", "wasted": "KV wasted"}
    for profile in stages[0].get("decode", []):
        rows = profile["batch"]
        heads[f"step-{rows}"] = f"ms a decode step, {rows} row{'s' * (rows > 1)}"
        heads |= {f"launches-{rows}": "launches", f"busy-{rows}": "GPU busy"}
    if any(stage["tokens_equal_baseline"] is not None for stage in stages):
        heads["equal"] = "equals the baseline"
    most = max(stage.get("requests", 0) for stage in stages)
    rows = []
    for stage, before in zip(stages, [None, *speeds[:-1]], strict=True):
        fewer = f" ({stage['requests']} requests)" if stage.get("requests", most) < most else ""
        row = {"stage": f"`{stage['name']}`{fewer}", "speed": f"{stage['tokens_per_s']:.0f}"}
        row["baseline"] = f"{stage['tokens_per_s'] / speeds[0]:.2f}"
        row["before"] = f"{stage['tokens_per_s'] / before:.2f}" if before else ""
        row |= {"ttft": f"{stage['ttft_ms']:.0f}", "kv": f"{stage['peak_kv_mib']:.1f}", "wasted": f"{stage['kv_wasted_percent']:.0f} %"}
        for profile in stage.get("decode", []):
            size, seen = profile["batch"], profile["gpu_busy"] is not None
            row[f"step-{size}"] = f"{profile['ms_per_step']:.2f}"
            row[f"launches-{size}"] = f"{profile['launches_per_step']:.0f}" if seen else ""
            row[f"busy-{size}"] = f"{profile['gpu_busy']:.0%}" if seen else ""
        row["equal"] = {True: "yes", False: "no", None: ""}[stage["tokens_equal_baseline"]]
        rows.append({key: row.get(key, "") for key in heads})
    fixed = report.get("workload", "mixed") != "mixed"
    what = f"workload `{report['workload']}`, {report['options']['max_num_seqs']} sequences at once; " if fixed else ""
    return Table(heads, rows, f"{report['model']}, {stages[0]['dtype']}; {what}{machine(report)}.", ("stage", "equal"))


def throughput(report: dict) -> Table:
    heads = {"workload": "workload", "minfer": "minfer, tokens/s", "transformers": "transformers, tokens/s", "ratio": "ratio"}
    rows = []
    for contest in report["results"]:
        requests = contest["workloads"][0]["requests"]
        what = f"{requests} requests of mixed length" if requests > 1 else "one request"
        ours, theirs = (f"{contest[name]['tokens_per_s']:.0f}" for name in ("minfer", "transformers"))
        rows.append({"workload": what, "minfer": ours, "transformers": theirs, "ratio": f"{contest['ratio']:.2f}"})
    options = report["options"]
    caption = f"{report['model']}, {options['dtype']}, stage `{options['stage']}`; {machine(report)}."
    return Table(heads, rows, caption, ("workload",))


def workload(report: dict) -> Table:
    heads = {"workload": "workload", "sequences": "sequences at once", "speed": "tokens/s, median", "repeats": "of each repeat"}
    heads |= {"steps": "steps", "preemptions": "preemptions"}
    row = {"workload": f"`{report['workload']}`", "sequences": f"{report['max_num_seqs']}", "speed": f"{report['output_tok_s']:.0f}"}
    row |= {"repeats": ", ".join(f"{run['tokens_per_s']:.0f}" for run in report["repeats"]), "steps": f"{report['steps']}"}
    row["preemptions"] = f"{report['preemptions']}"
    return Table(heads, [row], f"{report['model']}, {report['dtype']}, stage `{report['stage']}`; {machine(report)}.", ("workload",))


def latency(report: dict) -> Table:
    heads = {"prompt": "prompt tokens", "ttft": "first token, ms", "tpot": "each later token, ms"}
    rows = [
        {"prompt": f"{each['prompt_tokens']}", "ttft": f"{each['ttft_ms']:.1f}", "tpot": f"{each['tpot_ms']:.2f}"}
        for each in report["results"]
    ]
    options = report["options"]
    return Table(heads, rows, f"{report['model']}, {options['dtype']}, stage `{options['stage']}`; {machine(report)}.")


def startup(report: dict) -> Table:
    heads = {"start": "start", "construction": "`LLM(...)`, s", "total": "process to first token, s"}
    rows = [
        {"start": f"{i}", "construction": f"{each['construction']:.1f}", "total": f"{each['since_process_start']:.1f}"}
        for i, each in enumerate(report["results"], start=1)
    ]
    return Table(heads, rows, f"{report['model']}, stage `{report['stage']}`; {machine(report)}.")


def decode_steps(report: dict) -> Table:
    names = list(report["results"][0]["stages"])
    heads = {"threads": "threads", "sequences": "sequences", **{name: f"`{name}`, ms a step" for name in names}, "ratio": "ratio"}
    rows = []
    for result in report["results"]:
        times = {name: f"{result['stages'][name]['ms_per_step']:.1f}" for name in names}
        ratio = f"{result['stages'][names[-1]]['speedup']:.2f}"
        rows.append({"threads": f"{result['threads']}", "sequences": f"{result['batch']}", **times, "ratio": ratio})
    return Table(heads, rows, f"{report['model']}, {report['dtype']}, context {report['context']}; {machine(report)}.")


def kernels(report: dict) -> Table:
    heads = {"slot": "slot", "shape": "shape", "us": "µs", "gb": "GB/s", "share": "of the copy's bandwidth"}
    heads |= {"eager": "PyTorch eager, µs", "times": "times as long"}
    rows = []
    for case in report["results"]:
        ours, eager = ({each["name"]: each for each in case["contenders"]}.get(name, {}) for name in ("minfer", "PyTorch eager"))
        row = {"slot": f"`{case['slot'].partition(',')[0]}`{case['slot'].partition(',')[2]}", "shape": case["shape"]}
        row |= {"us": _or_nothing(ours.get("median_us"), ".1f"), "gb": _or_nothing(ours.get("gb_per_s"), ".0f")}
        row |= {"share": _or_nothing(ours.get("share_of_copy"), ".0%"), "eager": _or_nothing(eager.get("median_us"), ".1f")}
        rows.append(row | {"times": _or_nothing(eager.get("times_as_long_as_minfer"), ".1f")})
    return Table(heads, rows, f"A copy reaches {report['copy_gb_per_s']:.0f} GB/s; {machine(report)}.", ("slot", "shape"))


def _or_nothing(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


WRITERS: dict[str, Callable[[dict], Table]] = {
    "ladder": ladder, "throughput": throughput, "workload": workload, "latency": latency, "decode-steps": decode_steps,
    "kernels": kernels, "startup": startup,
}  # fmt: skip


def plain(content: dict, report: dict) -> Table:
    """A table that a chapter measured itself: {"columns": {key: head}, "rows": [{key: value}], "formats": {key: ".1f"}}."""
    formats = content.get("formats", {})
    rows = [{key: format(row[key], formats.get(key, "")) for key in content["columns"]} for row in content["rows"]]
    text = tuple(key for key in content["columns"] if any(isinstance(row[key], str) for row in content["rows"]))
    return Table(content["columns"], rows, f"{machine(report)}." if "hardware" in report else "", text)


def _known(what: str, name: str, names) -> str:
    if name not in names:
        raise ValueError(f"no {what} is called {name!r}; there are {', '.join(names)}")
    return name
