"""Measures chapter 12: what the host does and sends for a decode step, with host inputs and with resident ones, on this CPU.

    python chapters/12_resident/measure.py

Writes measured.json beside itself. Tensors are made and copied as for a GPU, but the copies stay in host memory. About 10 seconds.
"""

from __future__ import annotations

import time
from dataclasses import is_dataclass
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import torch

from minfer.bench.report import header, write_json
from minfer.inputs.host import HostInputs
from minfer.inputs.resident import ResidentInputs
from minfer.params import SamplingParams
from minfer.types import Batch, Bucket, Plan, Sampling, Work

ROWS = (8, 64, 256)
CONTEXT, MAX_LEN, BLOCK = 1000, 4096, 16
STEPS = 60
PARTS = {"host": HostInputs, "resident": ResidentInputs}


def plans(rows: int) -> list[Plan]:
    """Every row's prompt in one step, then decodes of all rows; a new block where one is full."""
    sampling = Sampling(SamplingParams(temperature=0.6, seed=1), 1, (), CONTEXT)
    found = []
    for step in range(STEPS):
        works = []
        for row in range(rows):
            start = CONTEXT - 1 + step if step else 0
            num_new = 1 if step else CONTEXT
            first, last = -(-start // BLOCK), -(-(start + num_new) // BLOCK)
            blocks = [1 + row * (MAX_LEN // BLOCK) + i for i in range(first, last)]
            works.append(Work(row, row, start, num_new, [7] * num_new, blocks, True, sampling))
        found.append(Plan(step, works))
    return found


def measure(part: type, rows: int) -> dict:
    """Median microseconds of build and of build and send, and what was sent, for a decode step."""
    model = SimpleNamespace(vocab_size=32000)
    limits = {"max_num_seqs": rows, "max_num_batched_tokens": rows * CONTEXT, "max_model_len": MAX_LEN}
    inputs = part(SimpleNamespace(device=torch.device("cpu"), model=model, **limits), BLOCK)
    build, both = [], []
    for plan in plans(rows):
        start = time.perf_counter()
        batch = inputs.build(plan)
        middle = time.perf_counter()
        inputs.send(batch, Bucket(rows) if plan.step else None)
        both.append(1e6 * (time.perf_counter() - start))
        build.append(1e6 * (middle - start))
    copies, size = sent(inputs, batch, rows)
    return {"build_us": median(build[5:]), "build_and_send_us": median(both[5:]), "copies": copies, "bytes": size}


def sent(inputs, batch: Batch, rows: int) -> tuple[int, int]:
    """Copies to the device in one decode step, and their bytes."""
    if isinstance(inputs, ResidentInputs):
        return 1, inputs.fixed.spans["tokens"][0] + 48 * rows
    tensors = [value for value in values(inputs.send(batch, Bucket(rows))) if isinstance(value, torch.Tensor)]
    return len(tensors), sum(each.nbytes for each in tensors)


def values(record) -> list:
    """A dataclass's fields, and those of a dataclass in it."""
    found = []
    for name in record.__slots__:
        value = getattr(record, name)
        found += values(value) if is_dataclass(value) else [value]
    return found


def main() -> None:
    results = [{"rows": rows, **{name: measure(part, rows) for name, part in PARTS.items()}} for rows in ROWS]
    report = {"kind": "chapter", **header(), "context": CONTEXT, "max_model_len": MAX_LEN, "block_size": BLOCK, "results": results}
    write_json(Path(__file__).with_name("measured.json"), report)


if __name__ == "__main__":
    main()
