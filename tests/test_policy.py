"""Policies: the order in which waiting sequences are admitted, in the queue alone and through the engine."""

from types import SimpleNamespace

import pytest
from engine_fixtures import POLICIES, finish, greedy, make_engine, run
from hypothesis import given, settings
from hypothesis import strategies as st
from slot_fixtures import make_seq
from slot_suites import suite_test

from minfer.resolve import resolve
from minfer.scheduler.queue import WaitingQueue

PREFIX_OF = {1: 0, 2: 16, 3: 4, 4: 16}  # tokens of a prompt that the pretended cache holds, by the prompt's first id
CONTEXT = SimpleNamespace(blocks=SimpleNamespace(lookup=lambda seq: PREFIX_OF[seq.token_ids[0]]), served={"a": 50, "b": 3})
KEYS = {  # what each policy promises, written once more
    "fcfs": lambda seq: (seq.seq_id,),
    "priority": lambda seq: (seq.request.priority, seq.seq_id),
    "shortest_prompt": lambda seq: (len(seq.request.prompt_ids), seq.seq_id),
    "shortest_job": lambda seq: (seq.limit - seq.num_computed + 16 * seq.seq_id, seq.seq_id),
    "longest_prefix": lambda seq: (-PREFIX_OF[seq.token_ids[0]], seq.seq_id),
    "fair_share": lambda seq: (CONTEXT.served.get(seq.request.user, 0), seq.seq_id),
}
sequences = st.lists(
    st.builds(
        lambda first, length, priority, user: make_seq([first] * length, priority=priority, user=user),
        st.integers(1, 4),
        st.integers(1, 6),
        st.integers(-2, 2),
        st.sampled_from("abc"),
    ),
    min_size=1,
    max_size=8,
)


test_every_part_has_the_properties = suite_test("policy")


def queue_of(policy: str) -> WaitingQueue:
    return WaitingQueue(resolve("policy", f"minfer.policy.{policy}:policy"), CONTEXT)


@pytest.mark.parametrize("policy", POLICIES)
@given(seqs=sequences, data=st.data())
def test_the_queue_gives_them_in_the_policys_order(policy, seqs, data):
    """Pushed in any order, some pushed again after they had run, some removed from the middle: always the lowest key first."""
    queue = queue_of(policy)
    waiting = []
    for seq in data.draw(st.permutations(seqs)):
        queue.push(seq)
        waiting.append(seq)
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(waiting))
            queue.remove(gone)
            waiting.remove(gone)
            if data.draw(st.booleans()):
                queue.push(gone)
                waiting.append(gone)
    assert len(queue) == len(waiting)
    for expected in sorted(waiting, key=KEYS[policy]):
        assert queue.first() is queue.first() is expected
        assert expected.rank == KEYS[policy](expected)
        queue.remove(expected)
    assert queue.first() is None


def test_keys_that_change_are_asked_for_again():
    """fair_share follows what has been served since the sequences were queued."""
    queue = queue_of("fair_share")
    ours, theirs = make_seq([1], user="a"), make_seq([1], user="b")
    queue.push(ours)
    queue.push(theirs)
    assert queue.first() is theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(CONTEXT.served, "b", 60)
        assert queue.first() is ours


def order_of(policy: str, requests: list[tuple[str, list[int], dict]], **options) -> list[str]:
    """The order in which requests end that wait for one row."""
    engine = make_engine("cpu", swap={"policy": f"minfer.policy.{policy}:policy"}, max_num_seqs=1, **options)
    for name, prompt, more in requests:
        engine.add_request(name, prompt, greedy(2), stream=False, **more)
    return list(finish(engine))


def test_policies_decide_who_runs_next():
    """End to end, with one row: by arrival, by priority, by length, by the cache, and in turns."""
    stem = list(range(5, 25))
    requests = [
        ("long", [*stem, 3, 3], {"priority": 2, "user": "a"}),
        ("short", [4, 4], {"priority": 1, "user": "a"}),
        ("middle", [6, 6, 6], {"priority": 1, "user": "a"}),
        ("again", [*stem, 4], {"priority": 0, "user": "b"}),
    ]
    assert order_of("fcfs", requests) == ["long", "short", "middle", "again"]
    assert order_of("priority", requests) == ["again", "short", "middle", "long"]
    assert order_of("shortest_prompt", requests) == ["short", "middle", "again", "long"]
    assert order_of("longest_prefix", requests) == ["long", "again", "short", "middle"]
    assert order_of("fair_share", requests) == ["long", "again", "short", "middle"]


def test_longest_prefix_uses_the_cache_before_it_is_lost():
    """Two families of prompts that take turns, in a pool that holds one: by families, more tokens are found than by arrival."""
    families = [[3 + f] * 16 for f in range(2)]
    prompts = [[*families[i % 2], 50 + i] for i in range(10)]
    cached = {}
    for policy in ("fcfs", "longest_prefix"):
        engine = make_engine("cpu", swap={"policy": f"minfer.policy.{policy}:policy"}, max_num_seqs=1, num_kv_blocks=5)
        cached[policy] = sum(output.num_cached_tokens for output in run(engine, prompts, greedy(2)))
    assert cached["fcfs"] == 0
    assert cached["longest_prefix"] == 16 * 8, "all but the first of each family"


@settings(max_examples=10)
@given(st.integers(2, 12))
def test_fair_share_lets_nobody_wait_for_anothers_hundred(count):
    """A user's single request is served after one of another user's many, not after all of them."""
    requests = [(f"a{i}", [5 + i, 6], {"user": "a"}) for i in range(count)] + [("b", [9, 9], {"user": "b"})]
    assert order_of("fair_share", requests).index("b") == 1
    assert order_of("fcfs", requests).index("b") == count
