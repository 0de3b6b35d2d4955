"""What is written on the command line reaches LLM(...) and SamplingParams."""

from __future__ import annotations

import os
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from cli_runner import opening, run
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer import SamplingParams
from minfer.cli.options import LLMOptions, SamplingOptions, names

INTEGERS = ["max_model_len", "max_num_seqs", "max_num_batched_tokens", "num_kv_blocks", "block_size", "num_host_blocks"]


@settings(max_examples=30)
@given(
    st.dictionaries(st.sampled_from(INTEGERS), st.integers(1, 9999)),
    st.none() | st.floats(0.01, 1),
    st.none() | st.integers(0, 2**31),
    st.dictionaries(st.sampled_from(["policy", "norm"]), st.sampled_from(["a.b:c", "./x=y.py:f"])),
)
def test_engine_options_reach_the_engine(integers, memory_share, engine_seed, swaps):
    """What was chosen arrives under its own name; what was not is left to the engine."""
    options = LLMOptions(**integers, memory_share=memory_share, engine_seed=engine_seed, swap=[f"{k}={v}" for k, v in swaps.items()])
    with patch("minfer.llm.LLM") as llm:
        options.open()
    ((args, kwargs),) = llm.call_args_list
    expected = {**integers, "memory_share": memory_share, "seed": engine_seed}
    expected = {name: value for name, value in expected.items() if value is not None}
    assert args == ("smollm2-135m",)
    assert kwargs == {"stage": None, "swap": swaps, "revision": None, "dtype": "auto", "device": "auto", **expected}


NUMBERS = {
    "max_tokens": st.integers(1, 99),
    "temperature": st.floats(0, 5),
    "top_k": st.integers(-1, 99),
    "top_p": st.floats(0.01, 1),
    "min_p": st.floats(0, 1),
    "repetition_penalty": st.floats(0.5, 2),
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "seed": st.integers(0, 2**62),
    "n": st.integers(1, 9),
    "logprobs": st.integers(0, 20),
    "prompt_logprobs": st.integers(0, 20),
}


@settings(max_examples=30)
@given(
    st.fixed_dictionaries({}, optional=NUMBERS),
    st.lists(st.text(st.characters(codec="ascii", categories=["L", "Zs"]), min_size=1), max_size=3),
    st.lists(st.integers(0, 99), max_size=3),
    st.dictionaries(st.integers(0, 99), st.floats(-100, 100), max_size=3),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_sampling_options_are_sampling_params(numbers, stop, stop_ids, bias, flags):
    """Every sampling option, parsed from the command line, sets the parameter of its name."""
    arguments = [f"--{name.replace('_', '-')}={value}" for name, value in numbers.items()]
    arguments += [f"--stop={text}" for text in stop] + [f"--stop-token-id={token}" for token in stop_ids]
    arguments += [f"--logit-bias={token}={amount}" for token, amount in bias.items()]
    arguments += [flag for flag, on in zip(["--ignore-eos", "--include-stop", "--keep-special-tokens"], flags, strict=True) if on]
    seen = []

    def generate(prompts, params):
        seen.append((prompts, params))
        return []

    fake = SimpleNamespace(generate=generate)
    with patch.object(LLMOptions, "open", opening(fake)):
        run("generate", *arguments, "a prompt")
    expected = SamplingParams(
        **{"temperature": 0, "max_tokens": 64, **numbers},
        stop=stop,
        stop_token_ids=stop_ids,
        logit_bias=bias,
        ignore_eos=flags[0],
        include_stop_str_in_output=flags[1],
        skip_special_tokens=not flags[2],
    )
    assert seen == [(["a prompt"], expected)]


def test_no_option_of_sampling_params_is_missing():
    """The command line offers every sampling parameter."""
    renamed = {
        "stop_token_ids": "stop_token_id",
        "include_stop_str_in_output": "include_stop",
        "skip_special_tokens": "keep_special_tokens",
    }
    wanted = {renamed.get(name, name) for name in names(SamplingParams())} - {"n", "logprobs", "prompt_logprobs"}
    assert set(names(SamplingOptions())) == wanted


@pytest.mark.parametrize("text", ["policy", "=x", "policy=", ""])
def test_a_malformed_swap_is_a_usage_error(text):
    assert "slot=module:Name" in run("generate", "x", "--swap", text, code=2).stderr


def test_a_slot_swapped_twice_is_a_usage_error():
    assert "twice" in run("generate", "x", "--swap", "norm=a:b", "--swap", "norm=c:d", code=2).stderr


def test_a_malformed_logit_bias_is_a_usage_error():
    assert "ID=NUMBER" in run("generate", "x", "--logit-bias", "five=1", code=2).stderr


@pytest.mark.parametrize(("load", "policy"), [(0.1, None), (1.5, "PASSIVE")])
def test_threads_sleep_while_they_wait_only_on_a_busy_machine(monkeypatch, load, policy):
    """Spinning threads stall where a core is taken; a value that the user has set stays."""
    from minfer.__main__ import wait_politely

    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setenv("OMP_WAIT_POLICY", "whatever was set")  # so that it is put back afterwards
    monkeypatch.delenv("OMP_WAIT_POLICY")
    wait_politely()
    assert os.environ.get("OMP_WAIT_POLICY") == policy
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_politely()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
