"""Records the traces that the chapters and the start page show, each of a run that is small enough to follow with one's eyes.

From: minfer itself, with random weights; `demo` runs the real default model. To: docs/traces/NAME.json. Times are left out, so the same
engine gives the same file. `make docs` turns each into a page with the player.

    python scripts/record_traces.py [NAME ...]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minfer import LLM, SamplingParams
from minfer.course.recording import drive
from minfer.trace import Trace, record

OUT = Path(__file__).resolve().parent.parent / "docs" / "traces"
TINY = "dummy:tiny"


@dataclass(frozen=True)
class Run:
    """One recording. arrivals: request → (step in which it comes, prompt, output tokens or parameters); sizes: of the engine."""

    stage: str
    arrivals: dict[str, tuple[int, Any, int | SamplingParams]]
    sizes: dict[str, int]
    model: str = TINY
    swap: dict[str, str] = field(default_factory=dict)


def ids(count: int, first: int = 5) -> list[int]:
    """A prompt of so many tokens, unlike that of another `first` from the first token on."""
    return [first + i % 3 for i in range(count)]


def rooms(num_kv_blocks: int, max_num_seqs: int, **others: int) -> dict[str, int]:
    sizes = {"max_num_batched_tokens": 64, "block_size": 4, "max_model_len": 64, **others}
    return {"num_kv_blocks": num_kv_blocks, "max_num_seqs": max_num_seqs, **sizes}


PREFIX = {"blocks": "minfer.blocks.prefix:PrefixBlocks"}
AHEAD = {"inputs": "minfer.inputs.resident:ResidentInputs", "loop": "minfer.loop.overlapped:loop"}
FOUR = {"A": (0, ids(3), 6), "B": (0, ids(2, 20), 2), "C": (0, ids(4, 40), 3), "D": (0, ids(2, 60), 4)}
LONG = {"A": (0, ids(3), 14), "B": (0, ids(2, 20), 13), "C": (3, ids(40, 40), 4)}
SHORT = {name: (2 + i, ids(5, 40 + 3 * i), 3) for i, name in enumerate("abcd")}
QUEUE = {"X": (0, ids(3), 4), "L": (1, ids(38, 20), 4), **SHORT}  # one of 42 tokens, and after it four of 8
SYSTEM = "You are a careful assistant. Answer in one short sentence.\n\n"
BREAD = "Here is a long text about bread. " + "Bread is made from flour, water, salt and yeast. " * 4 + "In short, bread"
TEXTS = {  # request: step in which it comes, prompt, output tokens at most
    "France": (0, SYSTEM + "The capital of France is", 8),
    "story": (1, "Once upon a time, in a small village by the sea, there lived an old woman who", 30),
    "Italy": (2, SYSTEM + "The capital of Italy is", 8),
    "count": (3, "One, two, three, four,", 16),
    "bread": (6, BREAD, 10),
    "sky": (14, SYSTEM + "The sky is blue because", 12),
}

RUNS = {
    "contiguous": Run(
        "decoder",
        {name: (0, ids(4 + 3 * i, 5 + 20 * i), 4 + i % 4) for i, name in enumerate("ABCDE")},
        rooms(num_kv_blocks=4, max_num_seqs=8),
    ),
    "page": Run(
        "continuous", {"A": (0, ids(6), 4), "B": (0, ids(3, 20), 6), "C": (4, ids(10, 40), 3)}, rooms(num_kv_blocks=6, max_num_seqs=4)
    ),
    "static": Run("paged", FOUR, rooms(num_kv_blocks=12, max_num_seqs=2)),
    "refilled": Run("continuous", FOUR, rooms(num_kv_blocks=12, max_num_seqs=2)),
    "preemption": Run(
        "continuous",
        {"A": (0, ids(6), 12), "B": (0, ids(5, 20), 10), "C": (1, ids(7, 40), 8)},
        rooms(num_kv_blocks=9, max_num_seqs=4),
    ),
    "whole": Run("continuous", LONG, rooms(num_kv_blocks=24, max_num_seqs=4, max_num_batched_tokens=10)),
    "chunks": Run("chunked", LONG, rooms(num_kv_blocks=24, max_num_seqs=4, max_num_batched_tokens=10)),
    "prefix": Run(
        "chunked",
        {"A": (0, ids(15), 3), "B": (2, [*ids(8), *ids(4, 20)], 3), "C": (7, ids(20, 40), 2)},
        rooms(num_kv_blocks=8, max_num_seqs=4),
        swap=PREFIX,
    ),
    "arrival": Run("chunked", QUEUE, rooms(num_kv_blocks=16, max_num_seqs=1, max_num_batched_tokens=16)),
    "patience": Run(
        "chunked",
        QUEUE,
        rooms(num_kv_blocks=16, max_num_seqs=1, max_num_batched_tokens=16),
        swap={"policy": "minfer.policy.shortest_job:policy"},
    ),
    "overlap": Run("chunked", {"A": (0, ids(3), 2), "B": (0, ids(2, 20), 5)}, rooms(num_kv_blocks=4, max_num_seqs=2), swap=AHEAD),
    "demo": Run(
        "cpu-torch",
        {name: (step, text, SamplingParams(temperature=0, max_tokens=count)) for name, (step, text, count) in TEXTS.items()},
        rooms(num_kv_blocks=27, max_num_seqs=4, max_num_batched_tokens=24, max_model_len=96),
        model="smollm2-135m",
    ),
}


def recorded(name: str) -> Trace:
    """The run's trace, without times."""
    run = RUNS[name]
    arrivals = run.arrivals if name != "overlap" else {**run.arrivals, "A": ending(run)}
    with open_llm(run) as llm, record(llm) as recording:
        drive(llm, arrivals.values(), arrivals)
    return without_times(recording.trace, run.model)


def open_llm(run: Run) -> LLM:
    return LLM(run.model, stage=run.stage, swap=run.swap or None, device="cpu", dtype="float32", **run.sizes)


def ending(run: Run) -> tuple[int, Any, SamplingParams]:
    """Request A, with an end that nobody can count in advance: its second output token is made a stop token."""
    step, prompt, count = run.arrivals["A"]
    with open_llm(run) as llm:
        output = llm.generate(prompt, SamplingParams(temperature=0, max_tokens=count, ignore_eos=True), progress=False)[0].outputs[0]
    return step, prompt, SamplingParams(temperature=0, max_tokens=count + 6, stop_token_ids=[output.token_ids[-1]])


def without_times(trace: Trace, model: str) -> Trace:
    """A time differs from recording to recording, and from machine to machine: what is decided does not. So does a model's place."""
    sequences = [{**each, "arrived": 0} for each in trace.content["sequences"]]
    kept = [{key: value for key, value in each.items() if key not in ("host", "device")} for each in trace.content["steps"]]
    engine = {**trace.engine, "model": model}
    return Trace({**trace.content, "engine": engine, "sequences": sequences, "steps": [{**each, "at": 0} for each in kept]})


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name in sys.argv[1:] or RUNS:
        recorded(name).save(OUT / f"{name}.json")


if __name__ == "__main__":
    main()
