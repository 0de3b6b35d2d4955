"""The whole engine with a submitted part in it, in the submission's process, against the same engine with minfer's own, in the grader.

The requests are drawn from the hidden seed, so that neither they nor their tokens are known in advance.

From: `grading.py`. To: an Outcome.
"""

from __future__ import annotations

import random

from minfer.course.chapter import Chapter
from minfer.course.classroom.remote import Remote
from minfer.course.engine_run import Ask, check_tokens, stage_here, tokens_of
from minfer.params import SamplingParams

VOCAB = 320  # of dummy:tiny
BLOCKS, SMALL_BLOCKS = 20, 12


def hidden_asks(seed: int, small: bool) -> list[Ask]:
    """Requests as those of `minfer check`, others for each seed."""
    draw = random.Random(seed)
    common = [draw.randrange(3, VOCAB) for _ in range(9)]
    asks = []
    for i in range(3 if small else 8):
        own = [draw.randrange(3, VOCAB) for _ in range(draw.randint(1, 10 if small else 28))]
        prompt = [*common, *own][: len(own)] if len(own) > 8 else own
        chosen = {"temperature": 0.8, "seed": seed + i} if i % 4 == 2 else {"temperature": 0}
        asks.append(Ask(prompt, SamplingParams(max_tokens=3 if small else 4 + draw.randrange(9), ignore_eos=True, **chosen)))
    return asks


def run_engine(chapter: Chapter, parts: dict[str, Remote], names: dict[str, str], seed: int, small: bool) -> int:
    """Compare → how many requests there were.

    Raises:
        Differs: a request got other tokens.
        NotImplementedError, PartRaised, Gone: see `Remote.ask`.
    """
    asks = hidden_asks(seed, small)
    reference, mix = stage_here(chapter), stage_here(chapter, names)
    sizes = {"max_model_len": 32 if small else 64, "max_num_seqs": 4, "max_num_batched_tokens": 16, "block_size": 4}
    if not reference.blocks.endswith(":ContiguousBlocks"):
        sizes["num_kv_blocks"] = SMALL_BLOCKS if small else BLOCKS
    wanted = tokens_of(reference, "cpu", small, asks)
    part = next(iter(parts.values()))
    came = part.ask("engine", mix, names, sizes, [tuple(ask) for ask in asks], seconds=part.process.limits.engine_seconds)
    rows = came if isinstance(came, list) else []
    for i, ask in enumerate(asks):
        check_tokens(i, ask, wanted[i], rows[i] if i < len(rows) else [], reference, "cpu")
    return len(asks)


