"""Hypothesis strategies for whole engines: prompts that share prefixes, sampling parameters, and sizes that make room scarce.

From: nothing. To: the tests of the engine, and of any part that a test swaps into it.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams

BUDGETS = (1, 2, 3, 5, 8, 17, 64)  # max_num_batched_tokens


def token_ids(low: int = 3, high: int = 319) -> st.SearchStrategy[int]:
    """Ordinary tokens of the small test vocabulary; the special ones come first."""
    return st.integers(low, high)


@st.composite
def prompts(draw: st.DrawFn, max_prompts: int = 5, max_len: int = 24, highest: int = 319) -> list[list[int]]:
    """Prompts of 1 to max_len tokens that begin alike: each is the beginning of one of two stems, and then its own tail.

    Some are equal, some are prefixes of others, some have nothing in common. With few different ids (up to `highest`) equal
    pieces stand behind different beginnings too.
    """
    ids = token_ids(high=highest)
    stems = draw(st.lists(st.lists(ids, min_size=1, max_size=max_len), min_size=1, max_size=2), label="stems")
    made = []
    for _ in range(draw(st.integers(1, max_prompts))):
        stem = draw(st.sampled_from(stems))
        shared = stem[: draw(st.integers(0, len(stem)))]
        tail = draw(st.lists(ids, min_size=not shared, max_size=min(4, max_len - len(shared)) or 1))
        made.append([*shared, *tail][:max_len])
    return made


@st.composite
def sizes(draw: st.DrawFn, longest: int, paged: bool = True) -> dict[str, Any]:
    """Options of an engine that can serve one sequence of `longest` tokens, and often not much more.

    paged: whether K/V blocks are small ones; else a block holds a whole sequence of max_model_len tokens.
    """
    block_size = draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16]))
    least = -(-longest // block_size) if paged else 1
    return {
        "max_model_len": longest + draw(st.integers(0, 5)),
        "block_size": block_size,
        "num_kv_blocks": least + draw(st.sampled_from([0, 1, 2, 4, 32] if paged else [0, 1, 3])),
        "max_num_batched_tokens": draw(st.sampled_from(BUDGETS)),
        "max_num_seqs": draw(st.integers(1, 6)),
        "num_host_blocks": draw(st.sampled_from([0, 3, 64])),
    }


@st.composite
def sampling_params(draw: st.DrawFn, **fixed: Any) -> SamplingParams:
    """Seeded parameters that use every way of choosing a token. `fixed` overrides what is drawn."""
    off_or = lambda name, off, values: draw(st.one_of(st.just(off), st.sampled_from(values)), label=name)  # noqa: E731
    drawn = {
        "temperature": off_or("temperature", 0.0, [0.5, 1.0, 2.0]),
        "top_k": off_or("top_k", 0, [1, 5, 64, 10**9]),
        "top_p": off_or("top_p", 1.0, [0.1, 0.9]),
        "min_p": off_or("min_p", 0.0, [0.05]),
        "repetition_penalty": off_or("repetition_penalty", 1.0, [0.7, 1.3]),
        "presence_penalty": off_or("presence_penalty", 0.0, [-1.0, 2.0]),
        "frequency_penalty": off_or("frequency_penalty", 0.0, [0.7]),
        "seed": draw(st.integers(-(2**63), 2**63 - 1), label="seed"),
        "max_tokens": draw(st.integers(1, 12), label="max_tokens"),
        "logit_bias": off_or("logit_bias", (), [{7: 3.0, 300: 5.0}]),
        "ignore_eos": True,
    }
    return SamplingParams(**{**drawn, **fixed})
