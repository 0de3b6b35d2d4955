"""The checker behind `minfer check` and the plugin: cases drawn, shrunk, printed and read again; and every suite it runs is whole."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from minfer.parts import SLOTS
from minfer.testing import checking
from minfer.testing.checking import check
from minfer.testing.properties import CPU, Place, Property, expect
from minfer.testing.suites import suite_of


@pytest.mark.parametrize("slot", SLOTS)
def test_every_suite_can_be_used(slot):
    """Unique names, whole sentences, and cases that survive being printed and read again, on every kind of place."""
    suite = suite_of(slot)
    assert len({prop.name for prop in suite}) == len(suite)
    for prop in suite:
        assert prop.statement.endswith(".")
        assert " " not in prop.name
        for place in (CPU, Place(interpreted=True), Place("cuda")):
            case = checking.simplest(prop, place)
            text = f"{prop.name} {checking.one_line(case)}"
            assert checking.parse_replay(text, suite, place) == (prop, case)


def number_case(place: Place) -> st.SearchStrategy:
    return st.fixed_dictionaries({"n": st.integers(0, 10**6)})


def test_the_same_seed_draws_the_same_cases():
    """And another one draws others; the number of examples is kept."""

    def drawn(at: int) -> list[int]:
        seen = []
        check(Property("n", "n.", number_case, lambda part, case: seen.append(case["n"])), None, examples=20, at=at)
        return seen

    assert drawn(3) == drawn(3) != drawn(4)
    assert len(drawn(3)) == 20


def test_the_simplest_case_is_found_and_what_it_depends_on():
    """Shrinking ends at the edge, and only what makes a difference is reported."""

    def check_number(part, case):
        expect(case["n"] < 1234, "less than 1234", case["n"])

    def vary(case, place):
        return {"n": {n: {"n": n} for n in (1233, 1234, 9999)}, "nothing": {"itself": case}}

    result = check(Property("n", "n is small.", number_case, check_number, 50, vary), None)
    assert (result.status, result.case) == ("failed", {"n": 1234})
    assert result.varying == {"n": {"1233": True, "1234": False, "9999": False}}


def test_a_part_that_does_not_fail_again():
    """A fault that comes and goes is reported as one, with the case on which it was seen."""
    calls = []

    def sometimes(part, case):
        calls.append(case)
        expect(len(calls) != 5, "no fifth call", "one")

    result = check(Property("n", "n.", number_case, sometimes), None)
    assert (result.status, result.flaky, result.case) == ("failed", True, calls[4])
