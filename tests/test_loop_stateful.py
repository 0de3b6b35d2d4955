"""Loops over thousands of steps, with all that can happen between two of them, on the toy model.

Every mix of the shipped schedulers, blocks, policies and kinds of preemption, under the loop that waits and the one that runs ahead.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minfer.loop import overlapped, plain
from minfer.testing.properties import Place
from minfer.testing.suites.loop import LoopTraffic
from minfer.testing.traffic import cases, requests


class Loops(RuleBasedStateMachine):
    """After each step the tokens are those that each request gets alone, and rows and blocks add up; at the end all are free."""

    @initialize(case=cases(Place("cpu", False, 1)), loop=st.sampled_from([plain.loop, overlapped.loop]))
    def begin(self, case, loop):
        self.traffic = LoopTraffic({**case, "events": []}, loop)

    @rule(request=requests())
    def add(self, request):
        self.traffic.add(request)

    @rule(steps=st.integers(1, 3))
    def step(self, steps):
        for _ in range(steps):
            if not self.traffic.step_if_any():
                break
            self.traffic.check()

    @precondition(lambda self: self.traffic.scheduler.live)
    @rule(which=st.integers(0, 99))
    def abort(self, which):
        live = list(self.traffic.scheduler.live.values())
        self.traffic.abort(live[which % len(live)])

    @precondition(lambda self: self.traffic.scheduler.running)
    @rule(which=st.integers(0, 99))
    def preempt(self, which):
        running = self.traffic.scheduler.running
        self.traffic.preempt(running[which % len(running)])

    @invariant()
    def books_balance(self):
        if hasattr(self, "traffic"):
            self.traffic.check()

    def teardown(self):
        if hasattr(self, "traffic"):
            while self.traffic.step_if_any():
                self.traffic.check()
            self.traffic.check_end()


TestLoops = pytest.mark.filterwarnings("ignore")(Loops.TestCase)
TestLoops.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
