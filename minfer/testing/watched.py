"""A scheduler's steps, looked at one by one: what it saw, and what it planned.

From: the cases of `promises/scheduler.py`. To: a failure that says both.
"""

from __future__ import annotations

from minfer.testing.properties import expect
from minfer.testing.traffic import Traffic
from minfer.types import Plan, Sequence, Status


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


class Again(Watched):
    """Who gave way computes its output once more, in pieces, and that is no decode."""

    def look(self, planned: dict[int, int], plan: Plan) -> None:
        if self.scheduler.num_preemptions == self.gave_way:
            waits = [seq.seq_id for seq in self.ran if self.to_do[seq.seq_id] == 1 and seq.seq_id not in planned]
            pieces = [seq.seq_id for seq in self.ran if self.to_do[seq.seq_id] > 1 and seq.seq_id in planned]
            came = f"step {plan.step} computes {planned} (sequence: new tokens); before it, {self.situation()}"
            expect(not waits or not pieces, f"the decodes {waits} to come before {pieces}, which compute several tokens", came)
