"""Slot `policy`: a key by which waiting sequences are sorted; it is a total order, looks and does not touch, and says if it changes."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.testing.properties import Case, Differs, Place, Property, expect
from minfer.testing.traffic import Traffic
from minfer.testing.traffic import cases as traffic_cases
from minfer.types import Request, Sampling, Sequence

USERS = "abc"


def cases(place: Place) -> st.SearchStrategy[Case]:
    """Sequences in the order of their arrival, and what the engine knows of them, at two moments."""
    sequence = st.fixed_dictionaries(
        {
            "prompt_len": st.integers(1, 5),
            "output_len": st.integers(0, 2),  # above 0: it has run before and gave way
            "priority": st.integers(-1, 1),
            "user": st.sampled_from(USERS),
        }
    )
    moment = st.fixed_dictionaries(
        {
            "served": st.dictionaries(st.sampled_from(USERS), st.integers(0, 50)),  # tokens computed so far; a user may be missing
            "cached": st.lists(st.integers(0, 4), min_size=6, max_size=6),  # of each sequence's first tokens
        }
    )
    return st.fixed_dictionaries({"sequences": st.lists(sequence, min_size=1, max_size=6), "then": moment, "later": moment})


def build(case: Case) -> list[Sequence]:
    seqs = []
    for number, each in enumerate(case["sequences"]):
        ids = list(range(each["prompt_len"]))
        request = Request(str(number), tuple(ids), SamplingParams(), (), 0, each["priority"], each["user"])
        sampling = Sampling(request.params, 0, (), len(ids))
        seqs.append(Sequence(number, request, 0, sampling, ids + [7] * each["output_len"], len(ids), 20))
    return seqs


def context_of(moment: Case) -> SimpleNamespace:
    """A PolicyContext."""
    blocks = SimpleNamespace(block_size=1, num_free=5, num_total=9, lookup=lambda seq: moment["cached"][seq.seq_id])
    return SimpleNamespace(blocks=blocks, served=dict(moment["served"]))


def keys_of(part: Any, seqs: list[Sequence], context: SimpleNamespace) -> list[tuple]:
    keys = [part(seq, context) for seq in seqs]
    for key in keys:
        expect(isinstance(key, tuple), "a tuple", f"{key!r}{' (is a return missing?)' if key is None else ''}")
    return keys


def check_order(part: Any, case: Case) -> None:
    seqs = build(case)
    keys = keys_of(part, seqs, context_of(case["then"]))
    for i, first in enumerate(keys):
        for second in keys[:i]:
            try:
                ordered = (first < second) != (second < first)
            except TypeError as error:
                raise Differs("keys that can be compared", f"{second} and {first}: {error}") from None
            expect(ordered, "a key of its own for each sequence, by seq_id where all else is equal", f"{first} twice")


def check_pure(part: Any, case: Case) -> None:
    seqs, context = build(case), context_of(case["then"])
    before, served = [describe(seq) for seq in seqs], copy.deepcopy(context.served)
    keys = keys_of(part, seqs, context)
    expect([describe(seq) for seq in seqs] == before, "the sequences as they were", [describe(seq) for seq in seqs])
    expect(context.served == served, f"context.served as it was, {served}", context.served)
    again = keys_of(part, seqs, context)
    expect(again == keys, f"the same keys when asked again, {keys}", again)


def describe(seq: Sequence) -> dict:
    return {name: copy.copy(getattr(seq, name)) for name in seq.__slots__ if name not in ("request", "sampling", "parent")}


def check_changes(part: Any, case: Case) -> None:
    seqs = build(case)
    then, later = (keys_of(part, seqs, context_of(case[moment])) for moment in ("then", "later"))
    if not getattr(part, "changes", False):
        expect(then == later, "`changes = True` on a policy whose keys change while a sequence waits", f"keys {then}, later {later}")


def check_traffic(part: Any, case: Case) -> None:
    Traffic(case, policy=part).play()


PROPERTIES = [
    Property("order", "Any two sequences have different keys, and one of them is lower.", cases, check_order, 100),
    Property("looks-only", "A key is the same when asked again, and asking changes nothing.", cases, check_pure, 60),
    Property("says-it-changes", "A policy whose keys change while a sequence waits says changes = True.", cases, check_changes, 100),
    Property(
        "traffic",
        "Under any scheduler each request comes to its end with the tokens that it gets alone.",
        lambda place: traffic_cases(place, "policy"),
        check_traffic,
        150,
    ),
]
