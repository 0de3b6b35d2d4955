"""Schedulers: the slot's suite over each of them, with all kinds of blocks, policies and preemption; and what chunking promises."""

from __future__ import annotations

from hypothesis import given, settings
from slot_suites import suite_test

from minfer.scheduler.chunked import ChunkedScheduler
from minfer.testing.properties import CPU
from minfer.testing.traffic import Traffic, cases

test_every_part_has_the_properties = suite_test("scheduler")


class Counted(Traffic):
    """Counts the tokens of every step."""

    def check_plan(self, plan):
        assert sum(work.num_new for work in plan.work) <= self.case["budget"]


@settings(max_examples=100)
@given(cases(CPU, "scheduler", ahead=True))
def test_chunked_never_exceeds_its_budget(case):
    """Not even for a prompt that would be computed whole."""
    Counted(case, scheduler=ChunkedScheduler).play()


def test_the_cases_are_hard():
    """Enough of the suite's cases preempt, abort, share prompts and end by a stop token; else they would test nothing."""
    seen = {"preempted": 0, "aborted": 0, "shared": 0, "stopped": 0}

    @settings(max_examples=100)
    @given(cases(CPU, "scheduler", blocks="prefix:PrefixBlocks"))
    def play(case):
        traffic = Traffic(case, scheduler=ChunkedScheduler)
        traffic.play()
        seen["preempted"] += traffic.scheduler.num_preemptions > 0
        seen["aborted"] += any(seq.finish_reason == "abort" for seq in traffic.seqs)
        seen["shared"] += any(seq.num_cached for seq in traffic.seqs)
        seen["stopped"] += any(seq.finish_reason == "stop" for seq in traffic.seqs)

    play()
    assert min(seen.values()) >= 15, seen
