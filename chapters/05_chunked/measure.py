"""Measures chapter 5: how long three users wait for their next token when a fourth one sends a long prompt.

From: SmolLM2-135M on this machine's CPU. To: `measured.json` beside this file, which the chapter's text and notebook read.
Run it from the repository's root: PYTHONPATH=. python chapters/05_chunked/measure.py. It takes about a minute.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from minfer import LLM, SamplingParams
from minfer.bench.report import header, write_json

MODEL = "smollm2-135m"
TALKERS, TALK_TOKENS = 3, 40  # users who decode, and the output tokens of each
LONG_PROMPT, LONG_TOKENS = 512, 4
ARRIVES_AFTER = 8  # steps
RUNS = [("continuous", 256), ("chunked", 256), ("chunked", 64), ("chunked", 16)]  # stage, budget
REPEATS = 3


def run(llm: LLM, seed: int) -> dict:
    """One run → the longest and the median wait between two tokens of a talker, and the long prompt's time to first token, in ms."""
    prompts = {f"talker {i}": [100 + 50 * seed + 7 * i + at for at in range(16)] for i in range(TALKERS)}
    params = SamplingParams(temperature=0, max_tokens=TALK_TOKENS, ignore_eos=True)
    for name, prompt in prompts.items():
        llm.add_request(name, prompt, params)
    times: dict[str, list[float]] = {name: [] for name in (*prompts, "long")}
    arrival, steps = 0.0, 0
    while llm.has_unfinished():
        if steps == ARRIVES_AFTER:
            arrival = time.perf_counter()
            long_params = SamplingParams(temperature=0, max_tokens=LONG_TOKENS, ignore_eos=True)
            llm.add_request("long", [2000 + seed + at for at in range(LONG_PROMPT)], long_params)
        for output in llm.step():
            times[output.request_id].append(time.perf_counter())
        steps += 1
    gaps = [1e3 * (b - a) for name in prompts for a, b in zip(times[name], times[name][1:], strict=False)]
    return {"longest_ms": max(gaps), "median_ms": median(gaps), "long_ttft_ms": 1e3 * (times["long"][0] - arrival), "steps": steps}


def main() -> None:
    rows = []
    for stage, budget in RUNS:
        with LLM(MODEL, stage=stage, device="cpu", max_model_len=1024, max_num_seqs=8, max_num_batched_tokens=budget) as llm:
            run(llm, REPEATS)  # warms up
            repeats = [run(llm, seed) for seed in range(REPEATS)]
        medians = {key: median(each[key] for each in repeats) for key in repeats[0]}
        rows.append({"name": f"{stage}-{budget}", "stage": stage, "budget": budget, **medians, "repeats": repeats})
    write_report(rows)


def write_report(rows: list[dict]) -> None:
    """The JSON beside this file."""
    columns = {
        "stage": "stage",
        "budget": "budget, tokens",
        "longest_ms": "longest wait for a token, ms",
        "median_ms": "median wait, ms",
        "long_ttft_ms": "first token of the long prompt after, ms",
        "steps": "steps",
    }
    shown = [{**{key: row[key] for key in columns}, "stage": f"`{row['stage']}`"} for row in rows]
    formats = {"longest_ms": ",.0f", "median_ms": ".0f", "long_ttft_ms": ",.0f", "steps": ".0f"}
    facts = {"model": MODEL, "talkers": TALKERS, "long_prompt": LONG_PROMPT, "repeats": REPEATS, "runs": rows}
    report = {"kind": "chapter", **header(), **facts, "waits": {"columns": columns, "rows": shown, "formats": formats}}
    write_json(Path(__file__).with_name("measured.json"), report)


if __name__ == "__main__":
    main()
