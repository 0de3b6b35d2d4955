"""Odd values at the public surface: one clear error each, and nothing is silently taken for something else."""

import numpy as np
import pytest
import torch
from engine_fixtures import checkpoint

from minfer import LLM, SamplingParams
from minfer.errors import MinferError, PartError
from minfer.hub import find_model


@pytest.fixture(scope="module")
def llm():
    with LLM(str(checkpoint()), dtype="float32", max_model_len=64) as llm:
        yield llm


@pytest.mark.parametrize("swap", [[1], "attention=x", {1: 2}, {"attention": None}])
def test_swap_must_map_slots_to_names(swap):
    with pytest.raises(PartError, match="must be a dict"):
        LLM(str(checkpoint()), swap=swap)


@pytest.mark.parametrize("slot", ["attention", "norm", "write_kv", "activation", "linear"])
def test_a_part_that_the_stage_never_calls_is_refused(slot, tmp_path):
    """The hf stage computes with transformers' own functions: a swapped one would pass unseen."""
    part = {"norm": "add_rms_norm", "activation": "silu_mul"}.get(slot, slot)
    mine = tmp_path / "mine.py"
    mine.write_text(f"from minfer.{slot}.torch import {part}\n")
    with pytest.raises(PartError, match=f"never calls the part in {slot}"):
        LLM(str(checkpoint()), stage="hf", swap={slot: f"{mine}:{part}"})


def test_a_file_that_exits_while_it_is_imported_is_named(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(PartError, match="cannot be imported: SystemExit: 3"):
        LLM(str(checkpoint()), swap={"attention": f"{mine}:attention"})


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"num_kv_blocks": "5"}, "num_kv_blocks='5' must be a whole number"),
        ({"max_num_seqs": 2.5}, "max_num_seqs=2.5 must be a whole number"),
        ({"max_num_seqs": 10**9}, "max_num_seqs=1000000000 is more than"),
        ({"foo": 1}, "no option is called foo; the options are"),
    ],
)
def test_options_are_checked_before_anything_is_loaded(options, what):
    with pytest.raises(MinferError, match=what):
        LLM(str(checkpoint()), **options)


@pytest.mark.parametrize("name", [None, 5, b"x", ""])
def test_a_model_is_named_by_a_string_or_a_path(name):
    with pytest.raises(MinferError, match="must be a name or a path"):
        find_model(name)


@pytest.mark.parametrize("array", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_arrays_and_tensors_are_lists(llm, array):
    """One row is one prompt, also as a list of numbers of theirs; several rows are several. Numbers that are no ids are refused."""
    row = array([5, 6, 7])
    alone, beside, several = [[5, 6, 7]], [[5, 6, 7], [8]], [[5], [6]]
    for prompts, rows in ((row, alone), (list(row), alone), ([row, [8]], beside), (array(several), several)):
        assert [output.prompt_token_ids for output in llm.generate(prompts, SamplingParams(max_tokens=1))] == rows
    for prompts in (array([5.5]), array([True]), array(5), array([[[5, 6]]])):
        with pytest.raises(MinferError, match=r"whole numbers|must be a string"):
            llm.generate(prompts)
    assert len(llm.generate(np.array(["a", "b"]), SamplingParams(max_tokens=1))) == 2


@pytest.mark.parametrize("messages", [{"role": "user", "content": "hi"}, "hi", None, 5, [5], ["hi"], [None], [[]]])
def test_chats_in_other_forms_are_refused(llm, messages):
    with pytest.raises(MinferError, match=r"messages (must be a list|is empty)"):
        llm.chat(messages)
    assert not llm.has_unfinished()


def test_conversations_may_come_in_any_container(llm):
    """Lists, tuples and iterators alike; no conversation gives no answer."""
    chat = [{"role": "user", "content": "hi"}]
    alone = llm.chat(chat, SamplingParams(max_tokens=1))[0].prompt_token_ids
    for messages, count in ((tuple(chat), 1), (iter(chat), 1), ([chat, chat], 2), ((tuple(each) for each in [chat]), 1), ([], 0)):
        outputs = llm.chat(messages, SamplingParams(max_tokens=1))
        assert [output.prompt_token_ids for output in outputs] == [alone] * count
    assert list(llm.stream(tuple(chat), SamplingParams(max_tokens=1)))[-1].prompt_token_ids == alone


@pytest.mark.parametrize("trace", [5, ["x"], b"x"])
def test_a_trace_goes_to_a_path(trace):
    with pytest.raises(MinferError, match="must be the path of a file"):
        LLM(str(checkpoint()), trace=trace)


@pytest.mark.parametrize("prompts", [{"a": 1}, {"a", "b"}, b"hi", [{1: 2}], [{1, 2}]])
def test_prompts_in_other_containers_are_refused(llm, prompts):
    with pytest.raises(MinferError, match=r"not (dict|set|bytes)"):
        llm.generate(prompts)
    assert not llm.has_unfinished()


@pytest.mark.parametrize("request_id", [None, 5, "", ["a"]])
def test_a_request_id_is_a_string(llm, request_id):
    with pytest.raises(MinferError, match="must be a string"):
        llm.add_request(request_id, [1, 2])


def test_too_many_completions_are_refused():
    with pytest.raises(MinferError, match="n=1000000 must be an integer from 1 to 1024"):
        SamplingParams(n=10**6)


def test_a_closed_engine_says_so():
    llm = LLM(str(checkpoint()), dtype="float32", max_model_len=64)
    llm.close()
    for use in (llm.stats, lambda: llm.generate([[1, 2]])):
        with pytest.raises(MinferError, match="closed"):
            use()
