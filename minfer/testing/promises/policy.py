"""What shortest job first with patience promises: who goes first of any two, and hence how long anybody can be kept waiting.

Two sequences with a given number of tokens to compute, so many places apart, are compared by their keys.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.policy.shortest_job import TOKENS_A_PLACE
from minfer.testing.properties import Case, Place, Property, expect
from minfer.types import Request, Sampling, Sequence

FIRST = 5  # seq_id of the sequence that came first


def cases(place: Place) -> st.SearchStrategy[Case]:
    """`less`: the tokens that the later one has less to compute, compared with what it takes to overtake."""
    return st.fixed_dictionaries(
        {
            "places": st.integers(1, 30),
            "left": st.integers(2, 500),  # tokens that the one with fewer has to compute
            "less": st.integers(0, 200),
            "computed": st.lists(st.integers(0, 20), min_size=2, max_size=2),  # of each: what swapping has kept
            "prompt": st.lists(st.integers(0, 100), min_size=2, max_size=2),  # percent of what is left that is prompt
        }
    )


def sequence(seq_id: int, left: int, computed: int, percent: int) -> Sequence:
    """One that has `left` tokens to compute if it asks for all it may, of which so many percent are prompt."""
    num_prompt = computed + 1 + (left - 2) * percent // 100
    ids = [0] * num_prompt
    params = SamplingParams(max_tokens=computed + left - num_prompt)
    request = Request(str(seq_id), tuple(ids), params)
    limit = num_prompt + params.max_tokens
    return Sequence(seq_id, request, 0, Sampling(params, 0, (), num_prompt), ids, num_prompt, limit, num_computed=computed)


def compare(part: Any, case: Case, earlier: int, later: int, who: str) -> None:
    """Of two sequences with so many tokens to compute, `who` must go first."""
    lefts = (earlier, later)
    ids = (FIRST, FIRST + case["places"])
    seqs = [sequence(*each) for each in zip(ids, lefts, case["computed"], case["prompt"], strict=True)]
    context = SimpleNamespace(blocks=SimpleNamespace(block_size=1, num_free=5, num_total=9, lookup=lambda seq: 0), served={})
    keys = [part(seq, context) for seq in seqs]
    came = "earlier" if keys[0] < keys[1] else "later"
    told = [f"{seq.limit} tokens at most, {seq.num_computed} of them computed" for seq in seqs]
    expect(
        came == who,
        f"the {who} one first: {case['places']} places apart, the earlier one may need {told[0]}; the later one {told[1]}",
        f"the {came} one first, by the keys {keys[0]} and {keys[1]}",
    )


def check_short(part: Any, case: Case) -> None:
    compare(part, case, case["left"] + TOKENS_A_PLACE * case["places"] + 1 + case["less"], case["left"], "later")


def check_patience(part: Any, case: Case) -> None:
    earlier = max(2, case["left"] + TOKENS_A_PLACE * case["places"] - case["less"])
    compare(part, case, earlier, case["left"], "earlier")


PROPERTIES = [
    Property(
        "short-first",
        f"A sequence with more than {TOKENS_A_PLACE} tokens less to compute for each place overtakes one that came earlier.",
        cases,
        check_short,
        150,
    ),
    Property(
        "patience",
        "A sequence with less of a lead does not: nobody is overtaken by more than a known number of later ones.",
        cases,
        check_patience,
        150,
    ),
]
