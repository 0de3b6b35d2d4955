"""Rotary embedding: settings in every form that config.json takes, frequencies and angles equal transformers'."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer.errors import ModelError
from minfer.rope import ROPE_TYPES, Rope, RopeConfig, inverse_frequencies

LONGEST = 64  # max_position_embeddings of the models here


def rope_settings(kind: str) -> st.SearchStrategy[dict]:
    """The parameters of one type as config.json would hold them, small enough to bite within a few hundred positions."""
    factor = st.sampled_from([1.0, 2.0, 3.5, 8])
    original = st.fixed_dictionaries({}, optional={"original_max_position_embeddings": st.sampled_from([16, 32])})
    extra = {
        "default": st.just({}),
        "linear": st.fixed_dictionaries({"factor": factor}),
        "dynamic": st.fixed_dictionaries({"factor": factor}),
        "llama3": st.fixed_dictionaries(
            {"factor": factor, "low_freq_factor": st.sampled_from([0.5, 1.0]), "high_freq_factor": st.sampled_from([2.0, 4])}
        ),
        "yarn": st.fixed_dictionaries(
            {"factor": factor},
            optional={
                "beta_fast": st.sampled_from([4.0, 32]),
                "beta_slow": st.sampled_from([0.5, 1]),
                "attention_factor": st.sampled_from([0.8, 1.3]),
                "mscale": st.sampled_from([0.7, 1.0]),
                "mscale_all_dim": st.sampled_from([0.5, 1.0]),
                "truncate": st.booleans(),
            },
        ),
    }[kind]
    theta = st.sampled_from([100.0, 10000.0, 500000])
    merged = st.tuples(extra, original if kind in ("llama3", "yarn") else st.just({}), theta)
    return merged.map(lambda parts: {"rope_type": kind, "rope_theta": parts[2], **parts[0], **parts[1]})


any_rope = st.sampled_from(ROPE_TYPES).flatmap(rope_settings)


def parse(rope: dict) -> RopeConfig:
    return RopeConfig.parse({"rope_parameters": rope}, LONGEST)


def theirs(rope: dict, head_dim: int):
    """transformers' module for the same settings."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, max_position_embeddings=LONGEST, rope_parameters=dict(rope))
    return LlamaRotaryEmbedding(config)


@settings(deadline=None, max_examples=80)
@given(rope=any_rope, head_dim=st.sampled_from([8, 24, 64, 80, 96, 128]))
def test_frequencies_equal_transformers(rope, head_dim):
    """All types, with and without their optional parameters, for head sizes that are no powers of two too."""
    module = theirs(rope, head_dim)
    ours = parse(rope)
    torch.testing.assert_close(inverse_frequencies(ours, head_dim), module.inv_freq, rtol=1e-6, atol=0)
    assert math.isclose(ours.attention_factor, module.attention_scaling, rel_tol=1e-9)


@settings(deadline=None, max_examples=80)
@given(rope=any_rope, head_dim=st.sampled_from([8, 24, 64]), length=st.sampled_from([1, LONGEST, LONGEST + 1, 3 * LONGEST]))
def test_angles_of_a_prompt_equal_transformers(rope, head_dim, length):
    """Cosines and sines of a whole prompt, below, at and above the length where dynamic scaling begins."""
    cos, sin = theirs(rope, head_dim)(torch.zeros(1), torch.arange(length)[None])
    ours = Rope(parse(rope), head_dim, 3 * LONGEST, "cpu").cos_sin(torch.arange(length), torch.full((length,), length))
    assert ours[0].dtype == ours[1].dtype == torch.float32
    for mine, full in zip(ours, (cos, sin), strict=True):
        torch.testing.assert_close(mine, full[0, :, : head_dim // 2], rtol=0, atol=2e-5)


@settings(deadline=None, max_examples=30)
@given(
    rope=any_rope,
    tokens=st.lists(st.tuples(st.integers(0, 190), st.integers(0, 60)), min_size=1, max_size=8),
)
def test_a_token_depends_on_its_own_position_and_length_only(rope, tokens):
    """Whatever else is in the batch, a token's angles are the same: dynamic scaling too is computed token by token."""
    module = Rope(parse(rope), 24, 256, "cpu")
    positions = torch.tensor([position for position, _ in tokens])
    lengths = torch.tensor([position + 1 + more for position, more in tokens])
    cos, sin = module.cos_sin(positions, lengths)
    for t in range(len(tokens)):
        alone = module.cos_sin(positions[t : t + 1], lengths[t : t + 1])
        assert torch.equal(alone[0][0], cos[t])
        assert torch.equal(alone[1][0], sin[t])


def test_dynamic_decoding_equals_transformers():
    """After a prompt beyond max_position_embeddings, each generated token is turned for the length reached so far."""
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    module, ours = theirs(rope, 24), Rope(parse(rope), 24, 256, "cpu")
    prompt = LONGEST + 9
    module(torch.zeros(1), torch.arange(prompt)[None])
    for position in range(prompt, prompt + 5):
        cos, _ = module(torch.zeros(1), torch.tensor([[position]]))
        mine, _ = ours.cos_sin(torch.tensor([position]), torch.tensor([max(prompt, position + 1)]))
        torch.testing.assert_close(mine, cos[0, :, :12], rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        {"rope_theta": 5e5, "rope_parameters": {"rope_type": "linear", "factor": 4.0}},
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}},
        {"rope_theta": 1e4, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}},
        {"rope_theta": 5e5, "rope_parameters": None, "rope_scaling": {"rope_type": "linear", "type": "su", "factor": 4.0}},
    ],
)
def test_every_layout_means_the_same(config):
    """theta beside or inside the table, either table, either spelling of the type."""
    assert RopeConfig.parse(config, 64) == RopeConfig("linear", 5e5, 4.0, 64)


@pytest.mark.parametrize(
    "config",
    [
        {"rope_theta": 5e5},
        {"rope_theta": 5e5, "rope_scaling": None},
        {"rope_theta": 5e5, "rope_parameters": {"rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
    ],
)
def test_theta_of_the_file_wins(config):
    """The library's default of 10000 never replaces what the file says; it stands in only where the file says nothing."""
    assert RopeConfig.parse(config, 64) == RopeConfig(theta=5e5)
    assert RopeConfig.parse({}, 64) == RopeConfig(theta=10000.0)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"rope_scaling": {"type": "foo", "factor": 2.0}}, ["'foo'", *ROPE_TYPES]),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, ["'longrope'", *ROPE_TYPES]),
        ({"rope_scaling": {"type": "linear"}}, ["linear", "factor", "missing"]),
        ({"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 1.0}}, ["high_freq_factor", "missing"]),
        ({"rope_scaling": {"type": "llama3", "factor": 2.0, "low_freq_factor": 4, "high_freq_factor": 4}}, ["below"]),
        ({"rope_scaling": {"type": "linear", "factor": "two"}}, ["factor='two'"]),
        ({"rope_scaling": {"type": "dynamic", "factor": -2.0}}, ["factor=-2.0"]),
        ({"rope_theta": 0}, ["rope_theta=0"]),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, ["flat"]),
        ({"rope_scaling": [1, 2]}, ["flat"]),
        ({"partial_rotary_factor": 0.5}, ["partial_rotary_factor"]),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, ["partial_rotary_factor"]),
    ],
)
def test_what_is_not_supported_is_refused(config, words):
    """An unknown type, a layout of another kind or a bad parameter is an error that names it."""
    with pytest.raises(ModelError) as error:
        RopeConfig.parse(config, 64)
    assert all(word in str(error.value) for word in words), error.value
