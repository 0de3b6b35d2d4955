"""An engine in a steady state: so many sequences, all of them decoding, or so many prompts that are computed and nothing else.

From: an engine and sizes. To: `bench/profile.py` and `bench/breakdown.py`, which look at its steps.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from minfer.bench import ranks
from minfer.errors import MinferError
from minfer.params import SamplingParams

if TYPE_CHECKING:
    from minfer.llm import LLM

numbers = itertools.count()  # no prompt comes twice, so that no cache answers it


def no_room(llm: LLM, batch: int, context: int, steps: int) -> str | None:
    """Why so many sequences of `context` tokens cannot decode side by side for so many steps; None if they can."""
    limit, length = llm.engine.max_len, context + steps
    if batch > llm.config.max_num_seqs:
        return f"batch={batch} is more than max_num_seqs={llm.config.max_num_seqs}, the sequences that run at once"
    if length > limit:
        return f"a context of {context} tokens and {steps} steps make {length}, and the limit is {limit} tokens (max_model_len)"
    blocks, total = batch * -(-length // llm.engine.blocks.block_size), llm.stats().num_total_blocks
    if blocks > total:
        return f"{batch} sequences of {length} tokens need {blocks} K/V blocks, and there are {total}; lower the batch or the context"
    return None


@contextmanager
def decoding(llm: LLM, batch: int, context: int, steps: int) -> Iterator[list[str]]:
    """Within it, each `llm.step()` is a decode step of `batch` greedy sequences, for `steps` steps → their request ids.

    Args:
        context: tokens of each prompt.

    Raises:
        MinferError: there is no room for them, or this scheduler does not run them side by side.
    """
    most = steps + context + batch + 8  # steps until all decode: a prompt may be computed in pieces, and prompts one by one
    reason = no_room(llm, batch, context, steps)
    if reason is not None:
        raise MinferError(reason)
    names = add(llm, batch, context, max_tokens=llm.engine.max_len - context)
    try:
        for _ in range(most):
            if all_decode(llm, batch):
                break
            llm.step()
        else:
            raise MinferError(f"{batch} sequences do not decode side by side in the stage {llm.stage.name!r}; take a smaller batch")
        yield names
    finally:
        for name in names:
            llm.abort(name)


def all_decode(llm: LLM, batch: int) -> bool:
    """Whether every sequence has its first token."""
    live = llm.engine.scheduler.live.values()
    return len(live) == batch and all(seq.num_output > 0 for seq in live)


def prefill(llm: LLM, prompts: int, context: int) -> None:
    """Compute so many prompts of `context` tokens, in as few steps as the engine takes, and one token for each."""
    add(llm, prompts, context, max_tokens=1)
    while llm.has_unfinished():
        llm.step()


def add(llm: LLM, requests: int, context: int, max_tokens: int) -> list[str]:
    """Greedy requests with random prompts → their ids."""
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=max_tokens)
    names = []
    for number in itertools.islice(numbers, requests):
        rng = random.Random(number)
        prompt = [rng.randrange(llm.config.model.vocab_size) for _ in range(context)]
        names.append(f"steady-{number}")
        llm.add_request(names[-1], prompt, params, stream=False)
    return names


def seconds_of(llm: LLM, steps: int) -> float:
    """Seconds of one step: the mean of so many in a row."""
    synchronize(llm)
    start = time.perf_counter()
    for _ in range(steps):
        llm.step()
    synchronize(llm)
    return (time.perf_counter() - start) / steps


def synchronize(llm: LLM) -> None:
    """Wait for what the device still has to do."""
    if ranks.has_ranks(llm):
        llm.engine.executor.ask(ranks.synchronize)
    elif llm.config.device.type == "cuda":
        torch.cuda.synchronize(llm.config.device)
