"""SamplingParams: what is accepted, what is refused, and what the message says."""

import dataclasses
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.errors import MinferError
from minfer.params import SamplingParams

NOT_NUMBERS = [True, "1", None, [1], math.nan, math.inf, -math.inf, 10**400]
NOT_INTEGERS = [True, 1.0, 1.5, "1", [1], math.nan]

VALID = {
    "n": st.integers(1, 100),
    "temperature": st.floats(0, 100),
    "top_k": st.integers(-1, 10**9),
    "top_p": st.floats(0, 1, exclude_min=True),
    "min_p": st.floats(0, 1),
    "repetition_penalty": st.floats(0.01, 100),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "seed": st.none() | st.integers(-(2**63), 2**63 - 1),
    "max_tokens": st.none() | st.integers(8, 10**9),
    "min_tokens": st.integers(0, 8),
    "stop": st.none() | st.text(min_size=1) | st.lists(st.text(min_size=1)),
    "stop_token_ids": st.none() | st.lists(st.integers(0, 10**6)),
    "ignore_eos": st.booleans(),
    "logprobs": st.none() | st.integers(0, 20),
    "prompt_logprobs": st.none() | st.integers(0, 20),
    "logit_bias": st.none() | st.dictionaries(st.integers(0, 10**6), st.floats(-100, 100)),
    "skip_special_tokens": st.booleans(),
    "include_stop_str_in_output": st.booleans(),
}


def test_every_field_has_a_strategy():
    """A field that is added must be added here too."""
    assert set(VALID) == {field.name for field in dataclasses.fields(SamplingParams)}


@settings(deadline=None, max_examples=100)
@given(st.fixed_dictionaries({}, optional=VALID))
def test_valid_values_are_kept_hashable_and_picklable(values):
    """Whatever is within its limits is accepted; equal arguments make equal, hashable, picklable, replaceable objects."""
    params = SamplingParams(**values)
    for name in set(values) - {"stop", "stop_token_ids", "logit_bias"}:
        assert getattr(params, name) == values[name]
    assert hash(params) == hash(SamplingParams(**values))
    assert pickle.loads(pickle.dumps(params)) == params
    assert dataclasses.replace(params) == params


REFUSED = {
    "n": [0, -1, *NOT_INTEGERS, None],
    "temperature": [-0.1, 1e39, *NOT_NUMBERS],
    "top_k": [-2, *NOT_INTEGERS, None],
    "top_p": [0, 0.0, -0.1, 1.1, *NOT_NUMBERS],
    "min_p": [-0.1, 1.1, *NOT_NUMBERS],
    "repetition_penalty": [0, -1.0, 1e-39, 1e39, *NOT_NUMBERS],
    "presence_penalty": [-2.1, 2.1, *NOT_NUMBERS],
    "frequency_penalty": [-2.1, 2.1, *NOT_NUMBERS],
    "seed": [2**63, -(2**63) - 1, *NOT_INTEGERS],
    "max_tokens": [0, -1, *NOT_INTEGERS],
    "min_tokens": [-1, 17, *NOT_INTEGERS, None],
    "stop": ["", ["a", ""], [""], 3, [3], ["a", None], b"a"],
    "stop_token_ids": ["12", 3, [-1], [1.0], [True], ["1"]],
    "ignore_eos": [0, 1, "yes", None],
    "logprobs": [-1, 21, *NOT_INTEGERS],
    "prompt_logprobs": [-1, 21, *NOT_INTEGERS],
    "logit_bias": [
        *({1: amount} for amount in (100.1, -101, math.nan, "1", True)),
        *({token: 0} for token in (-1, "x", "-1", "²", "9" * 5000, True, 1.0, None)),
        *({"1": 0, 1: 2}, "1", 3, [1], [(1, 2, 3)]),
    ],
    "skip_special_tokens": [0, 1, "no", None],
    "include_stop_str_in_output": [0, 1, "no", None],
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_values_are_refused_by_name(name):
    """Each value out of its limits or of the wrong type is refused, and the message names the parameter."""
    for value in REFUSED[name]:
        with pytest.raises(MinferError, match=name):
            SamplingParams(**{name: value})


def test_messages_say_value_limit_and_remedy():
    """A message holds what was given, what is allowed, and what to do."""
    for arguments, *words in [
        ({"top_p": 0}, "top_p=0", "above 0", "temperature=0"),
        ({"top_p": 1.5}, "top_p=1.5", "from 0 to 1"),
        ({"top_k": -3}, "top_k=-3", "at least -1", "off"),
        ({"logprobs": -1}, "logprobs=-1", "0 to 20", "whole vocabulary"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens=9", "max_tokens=8"),
        ({"logit_bias": {"7": 200}}, "logit_bias[7]=200", "-100 to 100"),
        ({"stop": ["a", ""]}, "empty string", "leave it out"),
    ]:
        with pytest.raises(MinferError) as error:
            SamplingParams(**arguments)
        for word in words:
            assert word in str(error.value)


def test_collections_become_tuples():
    """One string is one stop, not its letters; mappings and lists are stored immutably, bias keys as sorted integers."""
    params = SamplingParams(stop="END", stop_token_ids=[3, 1], logit_bias={"12": 1, 5: -100})
    assert params.stop == ("END",)
    assert params.stop_token_ids == (3, 1)
    assert params.logit_bias == ((5, -100.0), (12, 1.0))
    empty = SamplingParams(stop=None, stop_token_ids=None, logit_bias=None)
    assert empty == SamplingParams()
    assert (empty.stop, empty.stop_token_ids, empty.logit_bias) == ((), (), ())


def test_numpy_numbers_become_pythons():
    """Numbers that come from arrays are as good as Python's."""
    params = SamplingParams(n=np.int64(2), temperature=np.float32(0.5), top_k=np.int32(3))
    assert (params.n, params.temperature, params.top_k) == (2, 0.5, 3)
    assert (type(params.n), type(params.temperature)) == (int, float)


def test_it_is_frozen():
    """A request's parameters cannot change while it runs."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplingParams().temperature = 0


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ""),
        ({"temperature": 0}, "greedy"),
        ({"temperature": 1e-6}, "greedy"),
        ({"temperature": 1e-5}, ""),
        ({"top_k": 1}, "greedy"),
        ({"repetition_penalty": 1.1}, "needs_history edits_logits"),
        ({"presence_penalty": -0.1}, "needs_history edits_logits"),
        ({"frequency_penalty": 0.1}, "needs_history edits_logits"),
        ({"logit_bias": {1: 0.0}}, "edits_logits"),
        ({"min_tokens": 1}, "edits_logits"),
    ],
)
def test_properties(arguments, expected):
    """The derived facts follow from exactly the parameters that they are about."""
    params = SamplingParams(**arguments)
    facts = SimpleNamespace(greedy=params.greedy, needs_history=params.needs_history, edits_logits=params.edits_logits)
    assert {name for name, holds in vars(facts).items() if holds} == set(expected.split())
