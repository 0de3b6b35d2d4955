"""The class LLM: prompts in, outputs out in order, every way of asking mixed with every other, and no trace of it afterwards."""

import gc
import logging

import pytest
from engine_fixtures import CPU, checkpoint, oracle, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer import LLM, SamplingParams
from minfer.errors import MinferError
from minfer.testing.invariants import check_idle

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
MESSAGES = [{"role": "user", "content": "hello"}]


def new_llm(**options) -> LLM:
    return LLM(str(checkpoint()), **{"stage": CPU, "max_model_len": 128, "num_kv_blocks": 40, "max_num_seqs": 4, **options})


@pytest.fixture(scope="module")
def llm():
    """Shared: every test must leave it whole, which is checked after each."""
    with new_llm() as llm:
        yield llm


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    yield
    if "llm" in request.fixturenames:
        llm = request.getfixturevalue("llm")
        assert not llm.has_unfinished()
        assert not llm._kept
        assert not llm._awaited
        check_idle(llm.engine.scheduler)


def prompts_of(count: int) -> list[list[int]]:
    """Longest first, so that they end in another order than they come."""
    return [[3 + (11 * i + j) % 300 for j in range(2 * (count - i))] for i in range(count)]


def test_outputs_come_in_the_prompts_order(llm):
    """Twelve prompts of descending length, max_tokens varied, three calls: each output belongs to its prompt."""
    texts = prompts_of(12)
    params = [SamplingParams(temperature=0, max_tokens=1 + 5 * i % 7, ignore_eos=True) for i in range(12)]
    for _ in range(3):
        outputs = llm.generate(texts, params)
        assert len({output.request_id for output in outputs}) == 12
        for prompt, own, output in zip(texts, params, outputs, strict=True):
            assert (output.prompt_token_ids, output.finished) == (prompt, True)
            assert len(output.outputs[0].token_ids) == own.max_tokens
            assert oracle().count_ties(prompt, output.outputs[0].token_ids) == 0


def test_a_prompt_may_be_text_or_ids_alone_or_in_a_list(llm):
    """One text, one list of ids, lists of either and of both, tuples and arrays; parameters for all or one each."""
    import numpy as np

    ids = tokenizer().encode("hello")
    expected = llm.generate(["hello"], GREEDY)[0].outputs[0]
    for prompts in ("hello", ids, [ids], ("hello",), [tuple(ids)], np.array(ids), [np.array(ids)]):
        [output] = llm.generate(prompts, [GREEDY])
        assert output.outputs[0].token_ids == expected.token_ids
        assert output.prompt_token_ids == ids
    assert [output.prompt for output in llm.generate(["hello", ids], GREEDY)] == ["hello", None]
    assert llm.generate([], GREEDY) == []
    assert tokenizer().decode(expected.token_ids, skip_special_tokens=True) == expected.text


def test_chat_uses_the_template_and_one_bos(llm):
    """One conversation or several; the ids are the template's, with a single BOS."""
    [output] = llm.chat(MESSAGES, GREEDY)
    assert output.prompt_token_ids == tokenizer().apply_chat_template(MESSAGES, add_generation_prompt=True, return_dict=False)
    assert output.prompt_token_ids.count(tokenizer().bos_token_id) == 1
    both = llm.chat([MESSAGES, [{"role": "system", "content": "x"}, *MESSAGES]], GREEDY)
    assert both[0].outputs[0].token_ids == output.outputs[0].token_ids
    assert len(both[1].prompt_token_ids) > len(output.prompt_token_ids)
    assert list(llm.stream(MESSAGES, GREEDY))[-1].outputs[0].token_ids == output.outputs[0].token_ids


def test_chat_without_a_template(llm, monkeypatch):
    """A model that was not made for chats says so, and completes plain prompts all the same."""
    monkeypatch.setattr(llm.tokenizer, "chat_template", None)
    for ask in (llm.chat, llm.stream):
        with pytest.raises(MinferError, match="no chat template"):
            ask(MESSAGES, GREEDY)
    assert llm.generate("hello", GREEDY)[0].finished


def test_stream_shows_every_step(llm):
    """One output a step, each longer than the last, the deltas making up the text; the last one is generate's."""
    whole = llm.generate("hello", GREEDY)[0].outputs[0]
    seen = [output.outputs[0] for output in llm.stream("hello", GREEDY)]
    assert [completion.token_ids for completion in seen] == [whole.token_ids[: i + 1] for i in range(6)]
    assert "".join(completion.delta for completion in seen) == seen[-1].text == whole.text


def test_streams_beside_each_other(llm):
    """Two streams read in turn, and generate and step while one is open: each gets all of its own outputs, and nothing hangs."""
    alone = [list(llm.stream(text, GREEDY)) for text in ("a", "the")]
    pairs = list(zip(llm.stream("a", GREEDY), llm.stream("the", GREEDY), strict=True))
    for i in range(2):
        assert [pair[i].outputs[0].token_ids for pair in pairs] == [output.outputs[0].token_ids for output in alone[i]]
    stream = llm.stream("a", GREEDY)
    first = next(stream)
    llm.generate(["the", "hello"], SamplingParams(temperature=0, max_tokens=20, ignore_eos=True))
    assert llm.step() == []
    assert [first.outputs[0].token_ids, *(output.outputs[0].token_ids for output in stream)] == [
        output.outputs[0].token_ids for output in alone[0]
    ]


def test_a_stream_that_nobody_reads_on_ends_its_request(llm):
    """Dropped before its first output, or after it, or closed: the request is aborted."""
    for read in (0, 1):
        stream = llm.stream("hello", GREEDY)
        for _ in range(read):
            next(stream)
        assert llm.engine.has_unfinished()
        del stream
        gc.collect()
        assert not llm.has_unfinished()


def test_the_step_api_beside_generate(llm):
    """A request added by hand goes on while generate runs, and none of its outputs is lost."""
    llm.add_request("mine", "the", GREEDY)
    assert llm.generate(["a"] * 3, SamplingParams(temperature=0, max_tokens=9, ignore_eos=True))[0].finished
    assert llm.has_unfinished()
    outputs = []
    while llm.has_unfinished():
        outputs += llm.step()
    assert {output.request_id for output in outputs} == {"mine"}
    assert [len(output.outputs[0].token_ids) for output in outputs] == [1, 2, 3, 4, 5, 6]
    assert "".join(output.outputs[0].delta for output in outputs) == outputs[-1].outputs[0].text


def test_an_id_of_ours_in_the_callers_hands(llm):
    """A caller's request may be called what generate would call its own; neither disturbs the other."""
    number = next(llm._ids)
    llm.add_request(f"minfer-{number + 1}", "the", GREEDY)
    assert len(llm.generate(["a", "b"], GREEDY)) == 2
    with pytest.raises(MinferError):
        llm.generate(["a", []], GREEDY)
    assert llm.abort(f"minfer-{number + 1}") is None, "it ended on its own and was not aborted"
    assert llm.step()[-1].finished


@pytest.mark.parametrize("where", ["launch", "commit"])
@pytest.mark.parametrize("stage", ["hf", "decoder", "continuous", CPU])
def test_an_interrupted_call_leaves_the_next_one_clean(stage, where, monkeypatch):
    """Ctrl-C in any step of generate: it comes through, and the next call gives what an untouched engine gives."""
    room = {"num_kv_blocks": 6 if stage in ("hf", "decoder") else 30, "block_size": 4, "max_num_seqs": 6}
    llm = new_llm(stage=stage, **room)
    texts = prompts_of(6)
    expected = [output.outputs[0].token_ids for output in new_llm(stage=stage, **room).generate(texts, GREEDY)]
    owner = llm.engine.executor if where == "launch" else llm.engine.scheduler
    real = getattr(owner, where)
    for step in (0, 1, 2, 3, 6, 9, 10):  # after steps 2, 5 and 8 a sequence has ended, and the next plan is to give up its row
        calls = iter(range(100))

        def interrupt(*arguments, step=step, calls=calls):
            if next(calls) == step:
                raise KeyboardInterrupt
            return real(*arguments)

        monkeypatch.setattr(owner, where, interrupt)
        with pytest.raises(KeyboardInterrupt):
            llm.generate(texts, [SamplingParams(temperature=0, max_tokens=3 + 3 * i, ignore_eos=True) for i in range(6)])
        monkeypatch.undo()
        check_idle(llm.engine.scheduler)
        assert not llm.has_unfinished()
        assert [output.outputs[0].token_ids for output in llm.generate(texts, GREEDY)] == expected
        assert llm.step() == []


def test_a_stream_learns_that_its_request_is_gone(llm, monkeypatch):
    """A step that fails in another call ends every request; a stream that was open says so instead of waiting for ever."""
    stream = llm.stream("hello", GREEDY)
    next(stream)
    monkeypatch.setattr(llm.engine.executor, "launch", lambda plan: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        llm.generate("a", GREEDY)
    monkeypatch.undo()
    with pytest.raises(MinferError, match="ended from elsewhere"):
        next(stream)
    assert len(llm.generate("a", GREEDY)[0].outputs[0].token_ids) == 6


def test_the_engine_says_what_fills_its_slots(caplog):
    """The stage and the reason for it, and each part that was swapped in, are logged and can be asked for."""
    with caplog.at_level(logging.INFO, logger="minfer"), new_llm(swap={"policy": "minfer.policy.priority:policy"}) as llm:
        assert "slot policy: minfer.policy.priority:policy" in caplog.text
        assert llm.stage.policy == "minfer.policy.priority:policy"
        assert llm.why_stage == "it was asked for"
    with LLM(str(checkpoint()), device="cpu", num_kv_blocks=4) as llm:
        assert llm.stage == CPU
        assert llm.why_stage.startswith("it is the fastest mix of parts without a GPU")


@settings(max_examples=10)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_priorities_and_users_reach_the_policy(counts, data):
    """With one row, requests run by priority, lowest first, and of equals the oldest."""
    llm = new_llm(max_num_seqs=1, swap={"policy": "minfer.policy.priority:policy"})
    priorities = [data.draw(st.integers(-2, 2)) for _ in counts]
    for i, (tokens, priority) in enumerate(zip(counts, priorities, strict=True)):
        llm.add_request(str(i), [5, 6], SamplingParams(max_tokens=tokens), priority=priority, user="a")
    ended = []
    while llm.has_unfinished():
        ended += [int(output.request_id) for output in llm.step() if output.finished]
    assert ended == sorted(range(len(counts)), key=lambda i: (priorities[i], i))


def test_host_blocks_need_a_part_that_swaps():
    """Room that nothing would use is refused, with the part that uses it."""
    room = {"num_host_blocks": 4}
    with pytest.raises(MinferError, match=r"num_host_blocks=4 .*recompute.*swap in preemption=minfer\.preemption\.swap:Swap, or leave"):
        new_llm(**room)
    with new_llm(swap={"preemption": "minfer.preemption.swap:Swap"}, **room) as llm:
        assert llm.engine.executor.num_host_blocks == 4
