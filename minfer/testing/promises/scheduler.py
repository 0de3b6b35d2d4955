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
from minfer.types import Plan, Sequence, Status

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


class Watched(Traffic):
    """Looks at what the scheduler was given and at what it planned, in every step."""

    def step(self) -> None:
        self.ran = self.in_state(Status.RUNNING)
        self.waited = self.in_state(Status.WAITING)
        self.to_do = {seq.seq_id: seq.num_new for seq in self.seqs}
        self.gave_way = self.scheduler.num_preemptions
        super().step()

    def in_state(self, status: Status) -> list[Sequence]:
        """The most urgent first, else in the order in which they came."""
        return sorted((seq for seq in self.seqs if seq.status is status), key=lambda seq: (seq.request.priority, seq.seq_id))

    def check_plan(self, plan: Plan) -> None:
        super().check_plan(plan)
        self.look({work.seq_id: work.num_new for work in plan.work}, plan)

    def look(self, planned: dict[int, int], plan: Plan) -> None:
        raise NotImplementedError

    def situation(self) -> str:
        """What the scheduler saw, for a failure."""
        ran = ", ".join(f"{seq.seq_id} ({self.to_do[seq.seq_id]} to compute)" for seq in self.ran) or "none"
        waited = ", ".join(f"{seq.seq_id} ({self.to_do[seq.seq_id]} to compute)" for seq in self.waited) or "none"
        return f"budget {self.case['budget']}, {self.case['rows']} rows; running: {ran}; waiting: {waited}"


class Places(Watched):
    """Nobody waits who could run."""

    def look(self, planned: dict[int, int], plan: Plan) -> None:
        budget, total = self.case["budget"], sum(planned.values())
        came = f"step {plan.step} computes {planned} (sequence: new tokens); before it, {self.situation()}"
        newcomers = [seq for seq in self.waited if seq.seq_id in planned]
        expect(
            total <= budget or len(newcomers) <= 1,
            f"several newcomers only as far as the budget of {budget} tokens goes (one alone may be longer than it)",
            came,
        )
        decodes = [seq.seq_id for seq in self.ran if self.to_do[seq.seq_id] == 1]
        going_on = sum(number in planned for number in decodes)
        wanted = min(len(decodes), budget)
        expect(going_on >= wanted, f"{wanted} of the running sequences {decodes}, which need one token each, to go on", came)
        left_out = [seq for seq in self.waited if seq.seq_id not in planned]
        if left_out:
            first = left_out[0]
            late = [seq.seq_id for seq in newcomers if seq.seq_id > first.seq_id]
            expect(not late, f"sequence {first.seq_id} to be let in before {late}, which came after it", came)
            free = self.case["rows"] - len(self.ran) - len(newcomers)
            fits = free > 0 and self.to_do[first.seq_id] <= budget - total
            expect(not fits, f"sequence {first.seq_id} to be let in: a row is free, and its tokens fit into what is left", came)


class Calm(Watched):
    """A step that takes room away gives none to a newcomer."""

    def look(self, planned: dict[int, int], plan: Plan) -> None:
        ran = {seq.seq_id for seq in self.ran}
        came_in = sorted(set(planned) - ran)
        expect(
            not came_in or self.scheduler.num_preemptions == self.gave_way,
            "nobody to be let in by a step in which a running sequence had to give way",
            f"sequences {came_in} were, in step {plan.step}; before it, {self.situation()}",
        )


class Limit(Traffic):
    """No step is longer than the budget."""

    def check_plan(self, plan: Plan) -> None:
        super().check_plan(plan)
        computed, budget = [work.num_new for work in plan.work], self.case["budget"]
        expect(sum(computed) <= budget, f"at most max_num_batched_tokens={budget} tokens in a step", f"{computed} in step {plan.step}")


class Full(Watched):
    """No step leaves its budget unused, and decodes come before pieces of prompts."""

    def look(self, planned: dict[int, int], plan: Plan) -> None:
        came = f"step {plan.step} computes {planned} (sequence: new tokens); before it, {self.situation()}"
        decodes = [seq.seq_id for seq in self.ran if self.to_do[seq.seq_id] == 1]
        waits = [number for number in decodes if number not in planned]
        pieces = [number for number in planned if number not in decodes]
        expect(not waits or not pieces, f"the decodes {waits} to come before the prompts {pieces}", came)
        free = self.case["rows"] - len(self.ran)
        there = sum(self.to_do[seq.seq_id] for seq in (*self.ran, *self.waited[:free]))
        wanted = min(self.case["budget"], there)
        computed = sum(planned.values())
        expect(computed == wanted, f"as many new tokens in the step as the budget allows and as there are: {wanted} of {there}", came)


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
        "full",
        "Decodes come first, and a step computes as many tokens as its budget allows and as there are.",
        lambda place: cases(place, policy="priority", budget=(1, 6)),  # with first come, first served, whoever decodes is older anyway
        check_full,
        500,
        vary,
    ),
]
