"""What is wrong is refused with the value, the limit and the remedy, and harms nobody: bad input, and aborts."""

import random

import pytest
from engine_fixtures import CPU, MIXES, PAGED_MIXES, checkpoint, finish, greedy, ids_of, make_engine, oracle, run
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer import LLM
from minfer.errors import MinferError
from minfer.params import SamplingParams
from minfer.testing.invariants import check_idle, check_scheduler
from minfer.testing.tokenizers import byte_level_tokenizer
from minfer.types import Status

NORMAL = [7, 8, 9]
BAD_PROMPTS = {
    "": "no tokens",
    (): "no tokens",
    (5, 320): r"token 1 .* 320.* 0 to 319",
    (-1,): r"token 0 .* -1.* 0 to 319",
    (2**40,): r"1099511627776.* 0 to 319",
    (1.5,): r"1\.5.* whole numbers",
    (True,): "True.* whole numbers",
    ("a", 3): "'a'.* whole numbers",
    b"abc": "bytes",
    None: "NoneType",
    5: "int",
    tuple(range(3, 67)): r"64 tokens.* 63 at most.* 64 tokens",
    "a\ud83d": "surrogate",
}
BAD_PARAMS = {
    "stop_token_ids": (SamplingParams(stop_token_ids=[320]), r"stop_token_ids names token 320.* 0 to 319"),
    "logit_bias": (SamplingParams(logit_bias={999: 1}), r"logit_bias names token 999.* 0 to 319"),
    "min_tokens": (SamplingParams(min_tokens=62, max_tokens=100), r"min_tokens=62.* 3 tokens only 61"),
    "type": ({"temperature": 0}, "SamplingParams, not dict"),
}


@pytest.fixture(scope="module")
def engine():
    """Every test must leave it able to serve a normal request."""
    engine = make_engine(max_model_len=64)
    engine.tokenizer = byte_level_tokenizer(bos=False)  # so that the empty text has no tokens at all
    return engine


def still_works(engine) -> None:
    assert oracle().count_ties(NORMAL, ids_of(run(engine, [NORMAL], greedy(5)))[0]) == 0


@pytest.mark.parametrize("prompt", BAD_PROMPTS, ids=lambda prompt: repr(prompt)[:20])
def test_a_bad_prompt_is_refused_alone(engine, prompt):
    """The error says what is wrong and what is allowed; requests beside it get their tokens."""
    engine.add_request("before", NORMAL, greedy(5))
    engine.step()
    with pytest.raises(MinferError, match=BAD_PROMPTS[prompt]):
        engine.add_request("bad", list(prompt) if isinstance(prompt, tuple) else prompt)
    assert oracle().count_ties(NORMAL, ids_of([finish(engine)["before"]])[0]) == 0
    still_works(engine)


@pytest.mark.parametrize("name", BAD_PARAMS)
def test_parameters_that_cannot_be_met_are_refused(engine, name):
    """So are those that the model or its length cannot satisfy."""
    params, message = BAD_PARAMS[name]
    with pytest.raises(MinferError, match=message):
        engine.add_request("bad", NORMAL, params)
    still_works(engine)


@pytest.mark.parametrize("options", [{"priority": "high"}, {"priority": float("nan")}, {"priority": True}, {"user": 3}], ids=str)
def test_what_a_policy_cannot_sort_by_is_refused(engine, options):
    """A priority is a whole number, a user a string."""
    engine.add_request("before", NORMAL, greedy(3))
    with pytest.raises(MinferError, match=next(iter(options))):
        engine.add_request("bad", NORMAL, **options)
    finish(engine)
    still_works(engine)


def test_the_limits_themselves_are_allowed(engine):
    """The last id, a prompt that leaves room for one token, any max_tokens: it is clamped to the model's length."""
    for prompt in ([319], [3] * 63):
        for max_tokens in (None, 10**9):
            [output] = run(engine, [prompt], SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True))
            assert len(output.outputs[0].token_ids) == 64 - len(prompt)
            assert output.outputs[0].finish_reason == "length"


def test_a_bad_prompt_in_a_list_stops_all_of_them():
    """generate names the prompt that cannot be served and runs none; the next call is clean. With a BOS an empty text is fine."""
    with LLM(str(checkpoint()), stage=CPU, max_model_len=64, num_kv_blocks=20) as llm:
        for prompts in (["ok", []], ["ok", [5, -1]], ["ok", None]):
            with pytest.raises(MinferError, match="prompt 1"):
                llm.generate(prompts, greedy(2))
            check_idle(llm.engine.scheduler)
            assert not llm.has_unfinished()
        with pytest.raises(MinferError, match="2 prompts came with 3"):
            llm.generate(["a", "b"], [greedy(2)] * 3)
        with pytest.raises(MinferError, match="prompts must be"):
            llm.generate(5)
        with pytest.raises(MinferError, match="SamplingParams, not dict"):
            llm.generate("a", {"temperature": 0})
        assert len(llm.generate(["", "ok"], greedy(2))) == 2


def test_a_model_without_a_tokenizer():
    """It takes and gives token ids; what needs text is refused, with what to use instead."""
    with LLM(str(checkpoint(tokenizer=False)), stage=CPU, max_model_len=64, num_kv_blocks=20) as llm:
        for prompt, params, message in [("hi", None, "pass token ids"), (NORMAL, SamplingParams(stop="x"), "use stop_token_ids")]:
            with pytest.raises(MinferError, match=message):
                llm.generate(prompt, params)
        for chat in (llm.chat, llm.stream):
            with pytest.raises(MinferError, match="a chat is text"):
                chat([{"role": "user", "content": "hi"}])
        completion = llm.generate(NORMAL, greedy(5, logprobs=1))[0].outputs[0]
        assert (oracle().count_ties(NORMAL, completion.token_ids), completion.text) == (0, "")
        assert all(value.decoded_token is None for entry in completion.logprobs for value in entry.values())


def test_an_id_in_use_is_refused(engine):
    """Until its request has ended; after that it is free again."""
    engine.add_request("a", NORMAL, greedy(3))
    with pytest.raises(MinferError, match=r"'a'.*in use"):
        engine.add_request("a", [4], greedy(3))
    assert oracle().count_ties(NORMAL, ids_of([finish(engine)["a"]])[0]) == 0
    still_works(engine)


@pytest.mark.parametrize("mix", PAGED_MIXES)
def test_a_prompt_longer_than_the_pool_blocks_nobody(mix):
    """Six blocks of four tokens hold 24: a prompt of 30 is refused with that number, and the one behind it runs."""
    engine = make_engine(MIXES[mix], max_model_len=64, block_size=4, num_kv_blocks=6)
    with pytest.raises(MinferError, match=r"30 tokens.* 23 at most.*24 tokens .*KV cache"):
        engine.add_request("long", [5] * 30)
    engine.add_request("short", NORMAL, SamplingParams(temperature=0, max_tokens=None, ignore_eos=True))
    output = finish(engine, max_steps=100)["short"]
    assert len(output.outputs[0].token_ids) == 24 - 3, "alone, it may fill the whole pool"
    assert oracle().count_ties(NORMAL, output.outputs[0].token_ids) == 0


STATES = {  # how to bring the second of two requests into a state
    "waiting": ({"max_num_seqs": 1}, any, lambda seq: seq.status is Status.WAITING and not seq.num_preemptions),
    "half its prompt read": ({"max_num_batched_tokens": 3}, any, lambda seq: 0 < seq.num_computed < seq.num_prompt),
    "decoding": ({}, any, lambda seq: seq.num_output > 1),
    "preempted": ({"num_kv_blocks": 7}, any, lambda seq: seq.status is Status.WAITING and seq.num_preemptions),
    "finished": ({}, all, lambda seq: seq.finished),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("mix", ["chunked", "cpu", "chunked+swap", "cpu+swap"])
@pytest.mark.parametrize("n", [1, 3])
def test_abort_in_every_state(mix, state, n):
    """Everything comes back, the caller gets one last output that says "abort", and the request beside it is exact."""
    options, quantity, reached = STATES[state]
    engine = make_engine(MIXES[mix], **{"max_num_batched_tokens": 64, "num_host_blocks": 4, **options})
    stem = [3 + i for i in range(9)]
    engine.add_request("other", stem, greedy(16), stream=False)
    prompt = [*stem[:4], 300, 301, 302, 303, 304]
    engine.add_request("it", prompt, greedy(10, n=n))
    seqs = engine._requests["it"].seqs
    outputs = {}
    while not quantity(reached(seq) for seq in seqs):
        assert not seqs[0].finished or quantity is all, "the state was not reached"
        outputs.update((output.request_id, output) for output in engine.step())
    last = engine.abort("it")
    if state == "finished":
        assert (last, [completion.finish_reason for completion in outputs["it"].outputs]) == (None, ["length"] * n)
    else:
        assert [completion.finish_reason for completion in last.outputs] == ["abort"] * n
        assert last.finished
        assert oracle().count_ties(prompt, last.outputs[0].token_ids) == 0
    assert engine.abort("it") is None
    assert engine.abort("never heard of") is None
    check_scheduler(engine.scheduler)
    outputs.update(finish(engine))
    assert oracle().count_ties(stem, outputs["other"].outputs[0].token_ids) == 0
    assert "it" not in outputs or state == "finished" or not outputs["it"].finished


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), mix=st.sampled_from([*PAGED_MIXES, "decoder", "hf"]))
def test_hundreds_of_requests_and_aborts(seed, mix):
    """Add, step and abort at random, unknown and finished ids too: nothing leaks, and what ends on its own is exact."""
    rng = random.Random(seed)
    engine = make_engine(MIXES[mix], max_model_len=40, num_kv_blocks=10 if mix in PAGED_MIXES else 3, num_host_blocks=4)
    prompts, ended = {}, {}
    for number in range(250):
        action = rng.random()
        if action < 0.3:
            prompts[str(number)] = [rng.randint(3, 5) for _ in range(rng.randint(1, 12))]
            engine.add_request(str(number), prompts[str(number)], greedy(rng.randint(1, 12), n=rng.choice([1, 1, 3])))
        elif action < 0.4 and prompts:
            engine.abort(rng.choice([*prompts, "unknown"]))
        else:
            ended.update((output.request_id, output) for output in engine.step() if output.finished)
        if number % 20 == 0:
            check_scheduler(engine.scheduler)
    ended.update(finish(engine))
    for name, output in ended.items():
        for completion in output.outputs:
            assert oracle().count_ties(prompts[name], completion.token_ids) == 0


def test_a_policy_that_fails_harms_nobody():
    """An error in a part while a request is added: the request is gone, and the others go on."""
    engine = make_engine()
    engine.add_request("a", NORMAL, greedy(4))
    engine.scheduler.waiting._policy = lambda seq, context: 1 / 0
    with pytest.raises(ZeroDivisionError):
        engine.add_request("b", [4], greedy(4, n=2))
    assert list(finish(engine)) == ["a"]
