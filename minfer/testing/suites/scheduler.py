"""Slot `scheduler`: whatever comes, every request gets the tokens that it gets alone, in an end number of steps, and nothing leaks.

The parts around it are drawn from those that come with minfer; the model is the toy of `minfer/testing/toy.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from minfer.testing.properties import Case, Property, expect
from minfer.testing.traffic import REQUEST, SHIPPED, Traffic, cases
from minfer.types import Plan


def check(part: Any, case: Case) -> None:
    Traffic(case, scheduler=part).play()


class Budgeted(Traffic):
    """Watches how many tokens a step computes."""

    def check_plan(self, plan: Plan) -> None:
        total, budget = sum(work.num_new for work in plan.work), self.case["budget"]
        pieces = [work for work in plan.work if work.num_new > 1 and not work.samples]
        expect(
            total <= budget or not pieces,
            f"a step with a piece of a prompt in it to compute at most max_num_batched_tokens={budget} tokens",
            f"{[work.num_new for work in plan.work]} tokens in step {plan.step}",
        )


def check_budget(part: Any, case: Case) -> None:
    Budgeted(case, scheduler=part).play()


def check_oldest(part: Any, case: Case) -> None:
    """First come, first served: the first sequence is never the one that gives way."""
    traffic = Traffic(case, scheduler=part)
    traffic.play()
    if traffic.seqs:
        first = traffic.seqs[0]
        expect(first.num_preemptions == 0, "the first sequence never to give way to a later one", f"{first.num_preemptions} times")


class Ordered(Traffic):
    """Remembers the first step of each sequence."""

    def __init__(self, case: Case, **parts: Any):
        super().__init__(case, **parts)
        self.began: dict[int, int] = {}

    def check_plan(self, plan: Plan) -> None:
        super().check_plan(plan)
        for work in plan.work:
            self.began.setdefault(work.seq_id, plan.step)


def order_cases(place: Any) -> st.SearchStrategy[Case]:
    """Requests that come at once, with prompts of one length, so that whoever fits, all fit."""
    some = st.lists(st.fixed_dictionaries({"priority": st.integers(-1, 1), "max_tokens": st.integers(1, 4)}), min_size=2, max_size=6)
    sizes = cases(place, "scheduler", forced=False, blocks="paged:PagedBlocks", policy="priority:policy", events=[])
    return st.tuples(sizes, some, st.integers(1, 9)).map(
        lambda drawn: {**drawn[0], "events": [{"prompt": [0] * drawn[2], **each} for each in drawn[1]]}
    )


def check_order(part: Any, case: Case) -> None:
    traffic = Ordered(case, scheduler=part)
    traffic.play()
    order = sorted(traffic.seqs, key=lambda seq: (seq.request.priority, seq.seq_id))
    for first, second in pairwise(order):
        steps = [traffic.began[seq.seq_id] for seq in (first, second)]
        expect(
            steps[0] <= steps[1],
            f"sequence {first.seq_id} (priority {first.request.priority}) to begin before sequence {second.seq_id} "
            f"(priority {second.request.priority}), or with it",
            f"they begin in the steps {steps[0]} and {steps[1]}",
        )


def check_work(part: Any, case: Case) -> None:
    """Tokens computed, with what is computed again after giving way, against the tokens that there are."""
    traffic = Traffic(case, scheduler=part)
    traffic.play()
    computed = sum(work.num_new for plan in traffic.executor.steps for work in plan.work)
    needed = sum(seq.num_tokens for seq in traffic.seqs)
    limit = 10 * needed + 10
    expect(computed <= limit, f"at most {limit} tokens computed for sequences of {needed} in all", computed)


def vary(case: Case, place: Any) -> dict[str, dict[Any, Case]]:
    """The same events with other parts and more room."""
    found = {slot: {part: {**case, slot: part} for part in parts} for slot, parts in SHIPPED.items() if slot in case}
    found["budget"] = {budget: {**case, "budget": budget} for budget in (1, 2, 4, 8, 64)}
    found["rows"] = {rows: {**case, "rows": rows} for rows in range(1, 6)}
    found["block_size"] = {size: {**case, "block_size": size} for size in range(1, 6)}
    found["extra blocks"] = {count: {**case, "extra_blocks": count} for count in (0, 1, 2, 4, 99)}
    found["steps planned ahead"] = {count: {**case, "ahead": count} for count in (0, 1)}
    simple = [{"prompt": event["prompt"]} if "prompt" in event else event for event in case["events"]]
    found["requests"] = {"as they are": case, f"with only a prompt ({REQUEST})": {**case, "events": simple}}
    return found


PROPERTIES = [
    Property(
        "tokens",
        "Whatever is added, aborted or gives way, each request gets the tokens that it gets alone; at the end everything is free.",
        lambda place: cases(place, "scheduler"),
        check,
        300,
        vary,
    ),
    Property(
        "ahead",
        "The same where a step is planned before the last one's tokens are known.",
        lambda place: cases(place, "scheduler", ahead=True),
        check,
        200,
        vary,
    ),
    Property(
        "budget",
        "No step computes more than max_num_batched_tokens tokens, unless it computes prompts whole.",
        lambda place: cases(place, "scheduler"),
        check_budget,
        100,
        vary,
    ),
    Property(
        "oldest",
        "With first come, first served, the sequence that came first never gives way: so there is always one that comes to its end.",
        lambda place: cases(place, "scheduler", forced=False, policy="fcfs:policy"),
        check_oldest,
        100,
        vary,
    ),
    Property(
        "order",
        "Of requests that come at once and need the same room, none begins before one that the policy puts first.",
        order_cases,
        check_order,
        60,
    ),
    Property(
        "work",
        "Sequences that take room from each other do not compute the same tokens over and over.",
        lambda place: cases(place, "scheduler", forced=False, blocks="paged:PagedBlocks"),
        check_work,
        100,
        vary,
    ),
]
