"""Slot `loop`: schedule, launch, wait, commit, each plan once and in order, until no work is left.

A loop may run ahead of the device by one step, or not at all. Where a case has `ahead` at 1, it must.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minfer.testing.properties import Case, Differs, Place, Property, expect
from minfer.testing.toy import ToyExecutor
from minfer.testing.traffic import VOCAB, Traffic, cases
from minfer.types import Plan, Sampled

IN_FLIGHT = 2  # steps at once, at most: an executor keeps what two of them have sampled
SPINS = 1000  # calls without a plan after which a loop is taken to go round for ever


class WatchedPending:
    """Counts how often it is waited for, and tells the traffic first."""

    def __init__(self, plan: Plan, pending: Any, on_wait: Callable[[Plan], None]):
        self.plan, self.pending, self.on_wait, self.result = plan, pending, on_wait, None

    def wait(self) -> Sampled:
        self.on_wait(self.plan)
        expect(self.result is None, f"each step to be waited for once, step {self.plan.step} too", "twice")
        self.result = self.pending.wait()
        return self.result


class WatchedExecutor(ToyExecutor):
    """Keeps what it launched, in order."""

    def __init__(self, on_wait: Callable[[Plan], None], *args: Any):
        super().__init__(*args)
        self.on_wait = on_wait
        self.launched: list[WatchedPending] = []

    def launch(self, plan: Plan) -> WatchedPending:
        self.launched.append(WatchedPending(plan, super().launch(plan), self.on_wait))
        flying = [each.plan.step for each in self.launched if each.result is None]
        expect(len(flying) <= IN_FLIGHT, f"at most {IN_FLIGHT} steps launched and not waited for", f"steps {flying}")
        return self.launched[-1]


class LoopTraffic(Traffic):
    """Traffic whose steps are made by the loop."""

    def __init__(self, case: Case, part: Any):
        super().__init__(case)
        self.part, self.iterator, self.committed = part, None, 0
        self.commit, self.scheduler.commit = self.scheduler.commit, self.watch_commit
        self.schedule, self.scheduler.schedule = self.scheduler.schedule, self.watch_schedule
        self.due: list = []  # sequences that commit gave back, and the loop has yet to yield
        self.asked_after = -1  # the last step that was launched when the scheduler was asked last
        self.in_vain = 0  # times in a row that it had no plan

    def watch_schedule(self) -> Plan | None:
        self.asked_after = len(self.executor.launched) - 1
        plan = self.schedule()
        self.in_vain = 0 if plan is not None else self.in_vain + 1
        expect(self.in_vain < SPINS, "the step in flight committed where the scheduler has no plan", f"it asked again {SPINS} times")
        return plan

    def on_wait(self, plan: Plan) -> None:
        """A loop that runs ahead has planned and launched the next step by now."""
        if self.case["ahead"]:
            planned, launched = self.scheduler.num_steps, len(self.executor.launched)
            what = f"step {plan.step} waited for after"
            expect(self.asked_after >= plan.step, f"{what} the scheduler was asked for the next step", "the wait first")
            expect(planned == launched, f"{what} step {planned - 1}, which is planned, was launched", "the wait first")

    def make_executor(self, num_blocks: int, block_size: int) -> WatchedExecutor:
        return WatchedExecutor(self.on_wait, self.config, num_blocks, self.case["host_blocks"], block_size, VOCAB)

    def watch_commit(self, plan: Plan, sampled: Sampled) -> list:
        launched = self.executor.launched
        expect(self.committed < len(launched), "commit after launch", f"step {plan.step} committed, {len(launched)} launched")
        pending = launched[self.committed]
        expect(plan is pending.plan, f"the plans committed in the order of launch, step {pending.plan.step} next", f"step {plan.step}")
        expect(sampled is pending.result, f"step {plan.step} committed with what it sampled", "what another step did, or none")
        self.committed += 1
        moved = self.commit(plan, sampled)
        self.due += moved
        return moved

    def check_yielded(self, moved: list) -> None:
        wanted = self.due[: len(moved)]
        numbers, due = ([seq.seq_id for seq in seqs] for seqs in (moved, self.due))
        expect(moved == wanted, f"what commit gives back to be yielded, in its order: sequences {due}", f"sequences {numbers}")
        del self.due[: len(moved)]
        self.check_moved(moved)

    def play(self) -> None:
        """As any traffic; in the end nothing is left in flight."""
        super().play()
        for moved in self.iterator or ():
            self.check_yielded(moved)
        expect(not self.due, "what commit gave back to be yielded", f"nothing of sequences {[seq.seq_id for seq in self.due]}")
        left = [each.plan.step for each in self.executor.launched if each.result is None]
        expect(not left, "no step left in flight by a loop that has ended", f"steps {left}, which nobody waits for")

    def step(self) -> None:
        if self.iterator is None:
            self.iterator = iter(self.part(self.scheduler, self.executor))
        moved = next(self.iterator, None)
        if moved is None:
            expect(not self.scheduler.has_work(), "the loop to go on while there is work", f"an end with {self.describe_live()}")
            self.iterator = None
        else:
            self.check_yielded(moved)


def check_traffic(part: Any, case: Case) -> None:
    LoopTraffic(case, part).play()


class Stuck:
    """A scheduler, or an executor, that never gets anywhere."""

    def __init__(self):
        self.calls = 0

    def has_work(self) -> bool:
        return True

    def schedule(self) -> Plan | None:
        self.calls += 1
        if self.calls > SPINS:
            raise Spinning
        return None


class Spinning(Exception):
    """Raised to get out of a loop that goes round for ever."""


class Broken(Exception):
    """What an executor raises."""


def check_stuck(part: Any, case: Case) -> None:
    wanted = "an error where a scheduler has work, plans none of it, and no step is in flight"
    try:
        for count, _ in enumerate(part(Stuck(), None)):
            expect(count < SPINS, wanted, "empty steps for ever")
    except Spinning:
        raise Differs(wanted, "a loop that goes round for ever") from None
    except (AssertionError, NotImplementedError):
        raise
    except Exception:
        return
    raise Differs(wanted, "an end without one")


def check_errors(part: Any, case: Case) -> None:
    """The executor fails in its n-th step: the caller must hear of it."""
    traffic = LoopTraffic(case, part)
    launch = traffic.executor.launch

    def failing(plan: Plan) -> Any:
        if len(traffic.executor.launched) >= case["fails_at"]:
            raise Broken
        return launch(plan)

    traffic.executor.launch = failing
    try:
        traffic.play()
    except Broken:
        return
    launched = len(traffic.executor.launched)
    expect(launched <= case["fails_at"], "the executor's error to reach the caller", f"{launched} steps without it")


def failing_cases(place: Place) -> st.SearchStrategy[Case]:
    return st.tuples(cases(place), st.integers(0, 4)).map(lambda drawn: {**drawn[0], "fails_at": drawn[1]})


PROPERTIES = [
    Property(
        "traffic",
        "Each plan is launched, waited for and committed once, in order, until no work is left; each request gets its tokens.",
        cases,
        check_traffic,
        200,
    ),
    Property(
        "stuck",
        "A scheduler that plans nothing though it has work is an error, and no endless loop.",
        lambda place: st.just({}),
        check_stuck,
        1,
    ),
    Property("errors", "An error of the executor reaches the caller.", failing_cases, check_errors, 30),
]
