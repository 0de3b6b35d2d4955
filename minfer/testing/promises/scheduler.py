"""What continuous and chunked schedulers promise: nobody waits who could run, and no step leaves its budget unused.

Played on the toy model, as the slot's suite is, with plain requests, paged blocks and first come, first served. Where nothing
else is said there is room for all K/V, so that only rows and the budget decide.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minfer.testing.properties import Case, Place, Property, expect
from minfer.testing.traffic import LONGEST_PROMPT, Traffic
from minfer.testing.traffic import cases as traffic_cases
from minfer.testing.watched import Again, Calm, Full, Limit, Places
from minfer.types import Sequence

AMPLE = 400  # blocks: more than the sequences of a case can fill


def cases(
    place: Place,
    most_tokens: int = 12,
    extra_blocks: tuple[int, int] = (AMPLE, AMPLE),
    steps: int = 4,
    policy: str = "fcfs",
    budget: tuple[int, int] = (1, 24),
) -> st.SearchStrategy[Case]:
    """Sizes, and events: requests of up to most_tokens tokens, and up to `steps` steps between them."""
    request = st.fixed_dictionaries(
        {
            "prompt": st.lists(st.integers(0, 2), min_size=1, max_size=LONGEST_PROMPT),
            "max_tokens": st.integers(1, most_tokens),
            **({"priority": st.integers(-1, 1)} if policy == "priority" else {}),
        }
    )
    event = st.one_of(request, request, st.fixed_dictionaries({"steps": st.integers(1, steps)})) if steps else request
    return st.fixed_dictionaries(
        {
            "blocks": st.just("paged:PagedBlocks"),
            "policy": st.just(f"{policy}:policy"),
            "preemption": st.just("recompute:Recompute"),
            "block_size": st.integers(1, 5),
            "extra_blocks": st.integers(*extra_blocks),
            "rows": st.integers(1, 5),
            "budget": st.integers(*budget),
            "host_blocks": st.just(0),
            "ahead": st.just(0),
            "events": st.tuples(request, st.lists(event, max_size=12)).map(lambda drawn: [drawn[0], *drawn[1]]),
        }
    )


def longest(seq: Sequence, context: Any) -> tuple:
    """A policy under which who gave way may come back in front of those that kept their place."""
    return (-seq.num_tokens, seq.seq_id)


def check_again(part: Any, case: Case) -> None:
    Again(case, scheduler=part, policy=longest).play()


def check_places(part: Any, case: Case) -> None:
    Places(case, scheduler=part).play()


def check_calm(part: Any, case: Case) -> None:
    Calm(case, scheduler=part).play()


def check_limit(part: Any, case: Case) -> None:
    Limit(case, scheduler=part).play()


def check_full(part: Any, case: Case) -> None:
    Full(case, scheduler=part).play()


def check_pieces(part: Any, case: Case) -> None:
    """One step of a scheduler to which some requests have come."""
    traffic = Traffic(case, scheduler=part)
    for event in case["events"]:
        traffic.add(event)
    left, wanted = case["budget"], []
    for seq in traffic.seqs[: case["rows"]]:
        wanted.append(min(seq.num_tokens, left))
        left -= wanted[-1]
    plan = traffic.scheduler.schedule()
    if plan is not None:
        traffic.check_plan(plan)
    planned = {work.seq_id: work.num_new for work in plan.work} if plan else {}
    expect(
        planned == {number: count for number, count in enumerate(wanted) if count},
        f"the first step to compute, of prompts of {[seq.num_tokens for seq in traffic.seqs]} tokens, {wanted}: "
        f"budget {case['budget']}, {case['rows']} rows",
        [planned.get(number, 0) for number in range(len(traffic.seqs))],
    )
    if plan is not None:
        traffic.executor.launch(plan)


def vary(case: Case, place: Place) -> dict[str, dict[Any, Case]]:
    """The same events with more or less of everything."""
    return {
        "budget": {budget: {**case, "budget": budget} for budget in (1, 2, 4, 8, 64)},
        "rows": {rows: {**case, "rows": rows} for rows in range(1, 6)},
        "extra blocks": {count: {**case, "extra_blocks": count} for count in (0, 1, 4, AMPLE)},
    }


PROPERTIES = [
    Property(
        "newcomers",
        "Of prompts that want one token each, a step takes as many whole ones as rows and budget allow, in their order, at least one.",
        lambda place: cases(place, most_tokens=1),
        check_places,
        200,
        vary,
    ),
    Property(
        "places",
        "Where there is room, every running sequence goes on in every step, and a free row is taken in the next step.",
        cases,
        check_places,
        200,
        vary,
    ),
    Property(
        "calm",
        "A step in which a running sequence had to give way lets nobody in.",
        lambda place: cases(place, extra_blocks=(0, 6), policy="shortest_prompt"),  # who came last may be first in the queue
        check_calm,
        200,
        vary,
    ),
    Property(
        "pieces",
        "The first step takes the prompts in their order, and of the last one as much as is left of the budget.",
        lambda place: cases(place, steps=0),
        check_pieces,
        200,
        vary,
    ),
    Property(
        "limit",
        "No step computes more than max_num_batched_tokens tokens, whatever it computes.",
        lambda place: traffic_cases(place, "scheduler", ahead=True),
        check_limit,
        200,
    ),
    Property(
        "again",
        "A sequence that gave way and computes its tokens again, output too, comes after those that decode.",
        lambda place: cases(place, extra_blocks=(0, 4), budget=(1, 5)),
        check_again,
        300,
        vary,
    ),
    Property(
        "full",
        "Decodes come first, and a step computes as many tokens as its budget allows and as there are.",
        lambda place: cases(place, policy="priority", budget=(1, 6)),  # with first come, first served, whoever decodes is older anyway
        check_full,
        500,
        vary,
    ),
]
