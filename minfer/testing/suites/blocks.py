"""Slot `blocks`: blocks are handed out once, shared only where they hold the same tokens, copied before they are written, given back.

`minfer/testing/pool.py` drives the part, and remembers what lies in each block.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minfer.testing.pool import Pool
from minfer.testing.properties import Case, Place, Property
from minfer.testing.traffic import Traffic
from minfer.testing.traffic import cases as traffic_cases

ALIKE = (-1, -2)  # hash(-1) == hash(-2) in CPython, so that tuples that differ only in these have one hash

STEMS = [[0, 1, 0, 1, 0, 0, 0], *([first, *[-1] * 5] for first in ALIKE)]


def cases(place: Place, reuse: bool = False, forks: bool = True, frees: bool = True) -> st.SearchStrategy[Case]:
    """Sizes and events: {"new": prompt, "of": i} a sequence (of: the one it shares its prompt with, if any), {"run": i, "tokens": n}
    computes up to n of its tokens (-1: the newest's), {"free": i} ends it. reuse: prompts are long and alike, and end soon; some have a
    "salt", or are "scored" (prompt_logprobs). forks and frees: whether there are such sequences and such events.
    """
    prompt = st.lists(st.integers(0, 1), min_size=4 if reuse else 1, max_size=9)
    if reuse:
        prompt = st.one_of(prompt, st.sampled_from(STEMS))
    sequence = st.integers(0, 5)
    new = st.fixed_dictionaries({"new": prompt}, optional={"salt": st.just(1), "scored": st.just(True)} if reuse else {})
    fork = st.fixed_dictionaries({"new": st.just([0]), "of": sequence})
    run = st.fixed_dictionaries({"run": sequence, "tokens": st.sampled_from([9, 9, 3, 5]) if reuse else st.integers(1, 9)})
    free = st.fixed_dictionaries({"free": sequence})
    kinds = [each.map(lambda event: [event]) for each in (new, *[fork] * forks, run, run, *[free] * frees)]
    if reuse:
        kinds.append(st.tuples(new, st.integers(1, 9)).map(lambda drawn: [drawn[0], {"run": -1, "tokens": drawn[1]}]))
    events = st.lists(st.one_of(kinds), min_size=2, max_size=30).map(lambda some: [event for several in some for event in several])
    first = st.sampled_from(STEMS) if reuse else prompt
    return st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 4),
            "num_blocks": st.integers(2, 14),  # block 0, which pads, included
            "keep": st.integers(0, 2),  # blocks to leave free at admission
            "events": st.tuples(first, events).map(lambda drawn: [{"new": drawn[0]}, *drawn[1]]),
        }
    )


def check(part: Any, case: Case) -> None:
    Pool(part, case).play()


def check_growth(part: Any, case: Case) -> None:
    Pool(part, case).play(end=False)


def check_traffic(part: Any, case: Case) -> None:
    Traffic(case, blocks=part).play()


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    return {
        "block_size": {size: {**case, "block_size": size} for size in range(1, 5)},
        "num_blocks": {count: {**case, "num_blocks": count} for count in (2, 3, 5, 9, 30)},
        "keep": {count: {**case, "keep": count} for count in (0, 1, 2)},
    }


PROPERTIES = [
    Property(
        "growth",
        "A table has as many blocks as its tokens fill, no block is in two tables, and where there is no room nothing is taken.",
        lambda place: cases(place, forks=False, frees=False),
        check_growth,
        100,
        vary,
    ),
    Property(
        "return",
        "The blocks of a sequence that ends are free again, each of them once, and serve others.",
        lambda place: cases(place, forks=False),
        check,
        100,
        vary,
    ),
    Property(
        "books",
        "Blocks are handed out once, as many as needed, all or nothing; each sequence finds its tokens where its table says.",
        cases,
        check,
        300,
        vary,
    ),
    Property(
        "sharing",
        "What is matched was computed for the same tokens with the same tokens before them, and is copied before it is written.",
        lambda place: cases(place, reuse=True),
        check,
        500,
        vary,
    ),
    Property(
        "traffic",
        "Under any scheduler each request gets the tokens that it gets alone, and at the end every block is free.",
        lambda place: traffic_cases(place, "blocks", ahead=True),
        check_traffic,
        200,
    ),
]
