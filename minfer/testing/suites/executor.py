"""Slot `executor`: plans in, tokens out: a whole tiny model gives transformers' greedy tokens, whatever is swapped out and in.

The scheduler and the blocks around it are those of the stage that the executor belongs to, or of the stage `chunked`.
"""

from __future__ import annotations

import functools
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from transformers.utils import logging

from minfer.config import EngineConfig, make_config
from minfer.loop.plain import loop
from minfer.params import SamplingParams
from minfer.preemption.recompute import Recompute
from minfer.preemption.swap import Swap
from minfer.resolve import resolve, why_not
from minfer.stages import CHUNKED, LADDER, Stage
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.oracle import Oracle
from minfer.testing.properties import Case, Place, Property, expect
from minfer.testing.strategies import prompts
from minfer.types import Request, Sampling, Sequence

MAX_LEN = 40
MAX_STEPS = 2000
_folder = tempfile.TemporaryDirectory(prefix="minfer-suite-")


@functools.cache
def checkpoint() -> Path:
    logging.disable_progress_bar()
    return make_checkpoint(Path(_folder.name) / "llama", "llama")


@functools.cache
def oracle() -> Oracle:
    return Oracle(checkpoint())


def stage_of(part: Any) -> Stage:
    """The last stage with this executor that runs on a CPU; for a new one, `chunked`."""
    name = f"{part.__module__}:{part.__qualname__}"
    stages = [stage for stage in LADDER if stage.executor == name and why_not(stage, "cpu") is None]
    return stages[-1] if stages else CHUNKED.with_parts(executor=name)


def cases(place: Place) -> st.SearchStrategy[Case]:
    return st.fixed_dictionaries(
        {
            "prompts": prompts(max_prompts=4, max_len=12),
            "max_tokens": st.integers(1, 8),
            "block_size": st.sampled_from([4, 1, 16]),
            "rows": st.integers(1, 4),
            "budget": st.sampled_from([64, 1, 3, 8]),
            "extra_blocks": st.just(4 * MAX_LEN),  # beyond what one sequence needs
            "host_blocks": st.just(0),
        }
    )


def scarce(place: Place) -> st.SearchStrategy[Case]:
    """Prompts that fit together, and outputs that do not."""
    prompt = st.lists(st.integers(3, 319), min_size=3, max_size=5)
    drawn = {
        "prompts": st.lists(prompt, min_size=2, max_size=4),
        "max_tokens": st.integers(8, 12),
        "block_size": st.sampled_from([1, 2, 4]),
        "rows": st.just(4),
        "budget": st.sampled_from([64, 5]),
        "extra_blocks": st.integers(0, 3),
        "host_blocks": st.sampled_from([40, 10, 0]),
    }
    return st.fixed_dictionaries(drawn)


def build(part: Any, case: Case) -> tuple[Any, Any, EngineConfig]:
    """(executor, scheduler, config)."""
    stage = stage_of(part)
    blocks = resolve("blocks", stage.blocks)
    config = make_config(
        checkpoint(), device="cpu", max_model_len=MAX_LEN, max_num_seqs=case["rows"], max_num_batched_tokens=case["budget"],
        block_size=case["block_size"], num_kv_blocks=4 * MAX_LEN, num_host_blocks=case["host_blocks"],
    )  # fmt: skip
    block_size = blocks.size_of_block(config)
    executor = part(config, stage, block_size)
    least = -(-(max(map(len, case["prompts"])) + case["max_tokens"]) // block_size)
    num_blocks = min(executor.num_blocks, 1 + least + case["extra_blocks"])
    preemption = Swap(executor.num_host_blocks) if executor.num_host_blocks else Recompute()
    policy, scheduler = resolve("policy", stage.policy), resolve("scheduler", stage.scheduler)
    return executor, scheduler(config, blocks(num_blocks, block_size), policy, preemption), config


def add(scheduler: Any, prompt: list[int], number: int, params: SamplingParams) -> Sequence:
    request = Request(str(number), tuple(prompt), params)
    sampling = Sampling(params, number, (), len(prompt))
    seq = Sequence(number, request, 0, sampling, list(prompt), len(prompt), len(prompt) + params.max_tokens)
    scheduler.add(seq)
    return seq


def run(part: Any, case: Case, **params: Any) -> list[Sequence]:
    executor, scheduler, _ = build(part, case)
    asked = SamplingParams(temperature=0, max_tokens=case["max_tokens"], ignore_eos=True, **params)
    seqs = [add(scheduler, prompt, number, asked) for number, prompt in enumerate(case["prompts"])]
    for step, _ in enumerate(loop(scheduler, executor)):
        expect(step < MAX_STEPS, f"an end within {MAX_STEPS} steps", "none")
    executor.close()
    executor.close()
    return seqs


def check_tokens(part: Any, case: Case) -> None:
    for seq in run(part, case):
        expect(seq.num_output == case["max_tokens"], f"{case['max_tokens']} tokens", seq.num_output)
        oracle().count_ties(list(seq.request.prompt_ids), seq.output_ids)


def check_logprobs(part: Any, case: Case) -> None:
    for seq in run(part, case, logprobs=2):
        rows = oracle().logprobs(seq.token_ids)[seq.num_prompt - 1 : -1]
        for at, (row, entry) in enumerate(zip(rows, seq.logprobs, strict=True)):
            for token, value in entry.items():
                close = math.isclose(value, float(row[token]), abs_tol=1e-3)
                expect(close, f"log-probability {row[token]:.5f} of token {token} after {seq.num_prompt + at} tokens", f"{value:.5f}")


def check_sizes(part: Any, case: Case) -> None:
    """The engine gives as many blocks to the `blocks` part as the executor says."""
    executor, _, config = build(part, case)
    wanted = config.model.kv_bytes_per_token(torch.float32)
    expect(executor.kv_bytes_per_token == wanted, f"kv_bytes_per_token {wanted}", executor.kv_bytes_per_token)
    expect(executor.num_blocks >= 2, "num_blocks of 2 at least, the padding block and one more", executor.num_blocks)
    expect(0 <= executor.num_host_blocks <= case["host_blocks"], f"at most {case['host_blocks']} host blocks", executor.num_host_blocks)
    executor.close()


PROPERTIES = [
    Property("tokens", "Prompts in chunks and decodes, in one batch: transformers' greedy tokens.", cases, check_tokens, 12),
    Property(
        "scarce",
        "The same where sequences give way, and their K/V move to the host and back, or are computed again.",
        scarce,
        check_tokens,
        15,
    ),
    Property("logprobs", "Log-probabilities are log_softmax of transformers' logits.", cases, check_logprobs, 5),
    Property("sizes", "What it says of its memory is right, and closing twice is fine.", cases, check_sizes, 3),
]
