"""Measures chapter 1: how fast this machine reads memory, and what the baseline makes of it. Writes measured.json beside itself.

    python chapters/01_baseline/measure.py

Random weights in the shape of SmolLM2-135M: what is computed takes as long as with the real ones. About 40 seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from minfer import LLM, SamplingParams
from minfer.bench.report import header, write_json
from minfer.hf_model import load_hf

MODEL = "dummy:smollm2-135m"
PROMPT = 128  # tokens
BATCHES = (1, 4)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """The fastest of several runs, since other programs can only make one slower."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def read_rate() -> float:
    """Bytes a second of a sum over 512 MiB, which does nothing but read."""
    values = torch.ones(2**27)
    return values.nbytes / seconds(values.sum, 15)


@torch.inference_mode()
def without_cache(repeats: int = 8) -> float:
    """Seconds for one more token where the model reads the whole sequence again."""
    model = load_hf(Path(MODEL), torch.float32, torch.device("cpu"))
    ids = torch.arange(PROMPT)[None]
    return seconds(lambda: model(ids, use_cache=False, logits_to_keep=1).logits[0, -1].argmax(), repeats)


def decode_step(batch: int, steps: int = 24) -> float:
    """Seconds of a decode step of the stage hf with so many sequences, the fastest of them."""
    with LLM(MODEL, stage="hf", max_model_len=512, max_num_seqs=batch) as llm:
        params = SamplingParams(temperature=0, max_tokens=steps + 2, ignore_eos=True)
        for i in range(batch):
            llm.add_request(str(i), [i + 3] * PROMPT, params)
        times = []
        while llm.has_unfinished():
            start = time.perf_counter()
            llm.step()
            times.append(time.perf_counter() - start)
    return min(times[2:])


def main() -> None:
    torch.set_num_threads(1)
    rate, cold = read_rate(), without_cache()
    weights = 4 * sum(parameter.numel() for parameter in load_hf(Path(MODEL), torch.float32, torch.device("cpu")).parameters())
    decode = [{"batch": batch, "ms": 1e3 * (taken := decode_step(batch)), "tokens_per_s": batch / taken} for batch in BATCHES]
    report = {
        "kind": "chapter",
        **header(),
        "model": MODEL,
        "prompt_tokens": PROMPT,
        "read_gb_per_s": rate / 1e9,
        "floor_ms": 1e3 * weights / rate,
        "floor_tokens_per_s": rate / weights,
        "without_cache_ms": 1e3 * cold,
        "decode": decode,
        "cache_speedup": 1e3 * cold / decode[0]["ms"],
        "batch_speedup": decode[1]["tokens_per_s"] / decode[0]["tokens_per_s"],
    }
    write_json(Path(__file__).with_name("measured.json"), report)


if __name__ == "__main__":
    main()
