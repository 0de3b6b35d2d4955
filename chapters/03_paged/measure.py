"""Measures chapter 3: the same requests in the same K/V memory, reserved whole and in pages. Writes measured.json beside itself.

    python chapters/03_paged/measure.py

Random weights in the shape of SmolLM2-135M. About a minute.
"""

from __future__ import annotations

from pathlib import Path

import torch

from minfer import LLM
from minfer.bench.report import header, write_json
from minfer.bench.run import run_workload, warm_up
from minfer.bench.workload import mixed
from minfer.course.recording import record

MODEL = "dummy:smollm2-135m"
MAX_LEN = 512
POOL = 1024  # tokens that the cache has room for
PAGE = 16
REQUESTS = 12
REPEATS = 3


def run(stage: str, num_blocks: int) -> dict:
    """The workload on one stage, the fastest of a few runs, since other programs can only make one slower."""
    with LLM(MODEL, stage=stage, max_model_len=MAX_LEN, max_num_seqs=REQUESTS, block_size=PAGE, num_kv_blocks=num_blocks) as llm:
        work = mixed(REQUESTS, (8, 64), (4, 16), llm.config.model.vocab_size, MAX_LEN)
        run_workload(llm, warm_up(llm, work))
        runs = []
        for _ in range(REPEATS):
            with record(llm) as steps:
                runs.append(run_workload(llm, work))
        return {
            "stage": stage,
            "block_tokens": llm.engine.scheduler.blocks.block_size,
            "tokens_per_s": max(each.tokens_per_s for each in runs),
            "steps": runs[0].steps,
            "preemptions": runs[0].preemptions,
            "most_at_once": max(len(step.running) for step in steps),
            "token_ids": runs[0].token_ids,
        }


def main() -> None:
    torch.set_num_threads(1)
    results = [run("decoder", POOL // MAX_LEN), run("paged", POOL // PAGE)]
    ids = [each.pop("token_ids") for each in results]
    report = {
        "kind": "chapter",
        **header(),
        "model": MODEL,
        "max_model_len": MAX_LEN,
        "pool_tokens": POOL,
        "requests": REQUESTS,
        "results": results,
        "speedup": results[1]["tokens_per_s"] / results[0]["tokens_per_s"],
        "equal_tokens": ids[0] == ids[1],
    }
    write_json(Path(__file__).with_name("measured.json"), report)


if __name__ == "__main__":
    main()
