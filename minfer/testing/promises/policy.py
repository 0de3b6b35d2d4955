"""What shortest job first with patience promises: who goes first of any two, and hence how long anybody can be kept waiting.

Two sequences, so many places apart, are compared by their keys. Then a whole queue is filled and emptied.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minfer.params import SamplingParams
from minfer.policy.shortest_job import TOKENS_A_PLACE
from minfer.scheduler.queue import WaitingQueue
from minfer.testing.properties import Case, Place, Property, expect
from minfer.testing.suites.policy import describe, keys_of
from minfer.types import Request, Sampling, Sequence

percent = st.integers(0, 100)
seq_ids = st.one_of(st.integers(3, 9), st.integers(0, 10**6))  # many are about to get another digit


def pairs(**more: st.SearchStrategy) -> st.SearchStrategy[Case]:
    """left: tokens that the later one has to compute. beyond: how far its lead is from what it takes to overtake."""
    fields = {"first": st.integers(0, 50), "places": st.integers(1, 30), "left": st.integers(2, 500), "beyond": st.integers(0, 200)}
    return st.fixed_dictionaries({**fields, **more})


def both(each: st.SearchStrategy) -> st.SearchStrategy[list]:
    return st.lists(each, min_size=2, max_size=2)


def known(left: int, share: int) -> int:
    """How many of `left` tokens to compute are known, by a share in percent: at least one is, and at least one is output to come."""
    return 1 + (left - 2) * share // 100


def sequence(seq_id: int, num_prompt: int, limit: int) -> Sequence:
    """One that has just come, as the engine would make it."""
    params = SamplingParams(max_tokens=limit - num_prompt)
    request = Request(str(seq_id), (0,) * num_prompt, params)
    return Sequence(seq_id, request, 0, Sampling(params, 0, (), num_prompt), [0] * num_prompt, num_prompt, limit)


def left_of(seq: Sequence) -> int:
    return seq.limit - seq.num_computed


def told(seq: Sequence) -> str:
    kept = f" - {seq.num_computed} computed" if seq.num_computed else ""
    asked = f"{seq.num_prompt} of prompt + {seq.limit - seq.num_prompt} of output"
    return f"sequence {seq.seq_id} has {left_of(seq)} tokens to compute ({asked}{kept})"


def context_of(served: dict[str, int]) -> SimpleNamespace:
    """A PolicyContext."""
    return SimpleNamespace(blocks=SimpleNamespace(block_size=1, num_free=5, num_total=9, lookup=lambda seq: 0), served=served)


def watched(part: Any) -> Any:
    """The same policy, whose keys must be tuples, and which must look and not touch."""

    def policy(seq: Sequence, context: SimpleNamespace) -> tuple:
        before = describe(seq)
        key, _, again = keys_of(part, [seq, sequence(seq.seq_id + 10**7, 1, 2), seq], context)
        expect(key == again, f"the same key {key} again, after another sequence's", again)
        after = describe(seq)
        changed = [name for name in before if after[name] != before[name]]
        expect(not changed, "the sequence as it was", f"another {', '.join(changed)}")
        return key

    policy.changes = getattr(part, "changes", False)
    return policy


def compare(part: Any, earlier: Sequence, later: Sequence) -> None:
    """The right one of the two goes first; a lead is never such that a tie-break decides."""
    first, second = (watched(part)(seq, context_of({})) for seq in (earlier, later))
    places, lead = later.seq_id - earlier.seq_id, left_of(earlier) - left_of(later)
    wanted = later if lead > TOKENS_A_PLACE * places else earlier
    came = "neither" if first == second else f"sequence {(earlier if first < second else later).seq_id} first"
    cost = f"{places} place{'s' * (places > 1)} cost{'s' * (places == 1)} {TOKENS_A_PLACE * places}"
    expect(
        came == f"sequence {wanted.seq_id} first",
        f"sequence {wanted.seq_id} first: {told(earlier)}, {told(later)}, a lead of {lead}, and {cost}",
        f"{came}, by the keys {first} and {second}",
    )


def check_short(part: Any, case: Case) -> None:
    later = case["first"] + case["places"]
    longer = case["left"] + TOKENS_A_PLACE * (case["places"] + 1) + case["beyond"]
    sizes = [(known(left, share), left) for left, share in zip((longer, case["left"]), case["known"], strict=True)]
    compare(part, sequence(case["first"], *sizes[0]), sequence(later, *sizes[1]))


def edges(case: Case) -> tuple[int, int]:
    """Tokens that the earlier one has to compute: a lead that is not enough, and the least that is."""
    edge = case["left"] + TOKENS_A_PLACE * case["places"]
    return max(2, edge - 1 - case["beyond"]), edge + 1


def check_patience(part: Any, case: Case) -> None:
    """With prompts of one token: here the price counts, and not yet what a job is."""
    for longer in edges(case):
        compare(part, sequence(case["first"], 1, longer), sequence(case["first"] + case["places"], 1, case["left"]))


def check_gave_way(part: Any, case: Case) -> None:
    """Both have run since they first came."""
    for longer in edges(case):
        earlier = came_back(part, case["first"], longer, **case["ran"][0])
        later = came_back(part, case["first"] + case["places"], case["left"], **case["ran"][1])
        compare(part, earlier, later)


def came_back(part: Any, seq_id: int, left: int, computed: int, output: int, known_share: int) -> Sequence:
    """It was asked for its key when it came. Now the K/V of `computed` tokens are kept, and it has up to `output` tokens of output."""
    num_tokens = computed + known(left, known_share)
    num_prompt = max(1, num_tokens - output)
    seq = sequence(seq_id, num_prompt, computed + left)
    keys_of(part, [seq], context_of({}))
    seq.token_ids += [0] * (num_tokens - num_prompt)
    seq.num_computed = computed
    return seq


def queues(place: Place) -> st.SearchStrategy[Case]:
    """Sequences in the order in which they come; after each, so many are taken and so many tokens of others computed."""
    lefts = st.integers(0, 19).map(lambda n: 2 + TOKENS_A_PLACE * (n // 2) + n % 2)  # so that there are many ties
    each = st.fixed_dictionaries({"left": lefts, "known": percent, "taken": st.integers(0, 2), "served": st.integers(0, 50)})
    return st.fixed_dictionaries(
        {"first": seq_ids, "backwards": st.booleans(), "sequences": st.lists(each, min_size=2, max_size=10)}
    )


def check_queue(part: Any, case: Case) -> None:
    """backwards: the order in which the objects are made, so that neither their addresses nor their birthdays tell who came first."""
    turns = list(enumerate(case["sequences"], case["first"]))
    made = reversed(turns) if case["backwards"] else turns
    seqs = {seq_id: sequence(seq_id, known(each["left"], each["known"]), each["left"]) for seq_id, each in made}
    served = {"": 0}
    policy, context = watched(part), context_of(served)
    queue = WaitingQueue(policy, context)
    for seq_id, each in turns:
        queue.push(seqs[seq_id])
        served[""] += each["served"]
        for seq in () if policy.changes else queue:
            now = policy(seq, context)
            came = f"none, and the key of sequence {seq.seq_id} was {seq.rank} when it came and is {now}"
            expect(now == seq.rank, "`changes = True` on a policy whose keys change while a sequence waits", came)
        for _ in range(min(each["taken"], len(queue))):
            take(queue)
    while len(queue):
        take(queue)


def take(queue: WaitingQueue) -> None:
    """The next one must be the right one, and no two may have the same key."""
    first = queue.first()
    keys = {seq.seq_id: seq.rank for seq in queue}
    sums = {seq.seq_id: left_of(seq) + TOKENS_A_PLACE * seq.seq_id for seq in queue}
    wanted = min(sums, key=lambda seq_id: (sums[seq_id], seq_id))
    expect(
        first.seq_id == wanted,
        f"sequence {wanted} next: those that wait have, with {TOKENS_A_PLACE} tokens a place on top, {listed(sums)}",
        f"sequence {first.seq_id}, by the keys {listed(keys)}",
    )
    expect(len(set(keys.values())) == len(keys), "a key of its own for each sequence, by seq_id where all else is equal", listed(keys))
    queue.remove(first)


def listed(values: dict[int, Any]) -> str:
    return ", ".join(f"{seq_id}: {value}" for seq_id, value in values.items())


ran = st.fixed_dictionaries({"computed": st.integers(0, 20), "output": st.integers(0, 20), "known_share": percent})

PROPERTIES = [
    Property(
        "short-first",
        f"A sequence that is clearly shorter, by {TOKENS_A_PLACE} tokens for each place and as many again, goes before an earlier one.",
        lambda place: pairs(known=both(percent)),
        check_short,
        150,
    ),
    Property(
        "patience",
        f"An earlier sequence is overtaken if it has more than {TOKENS_A_PLACE} tokens more for each place, and not if it has fewer.",
        lambda place: pairs(),
        check_patience,
        150,
    ),
    Property(
        "gave-way",
        "The same among sequences that have run and come back: tokens whose K/V were kept need not be computed, and do not count.",
        lambda place: pairs(ran=both(ran)),
        check_gave_way,
        150,
    ),
    Property(
        "queue",
        "A queue gives them in that order whatever else is computed meanwhile; of two that are equal, the one that came first.",
        queues,
        check_queue,
        150,
    ),
]
