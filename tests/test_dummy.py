"""Models without files: the named shapes, and their random weights in our own model and in transformers'."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minfer import dummy
from minfer.errors import ModelError
from minfer.hf_model import load_hf
from minfer.hub import find_model
from minfer.llm import LLM
from minfer.model_config import ModelConfig
from minfer.params import SamplingParams
from minfer.stages import HF
from minfer.testing.decoding import compute_logits, load

BILLIONS = {"smollm2-135m": 0.135, "qwen3-0.6b": 0.596, "tinyllama-1.1b": 1.1, "llama-8b": 8.03}


@pytest.mark.parametrize("name", BILLIONS)
def test_a_shape_has_as_many_weights_as_its_model(name):
    """Counted from the configuration, without making the model."""
    config = ModelConfig.load(find_model(f"dummy:{name}"))
    H, D = config.hidden_size, config.head_dim
    layer = 2 * H * D * (config.num_heads + config.num_kv_heads) + 3 * H * config.intermediate_size
    total = config.num_layers * layer + config.vocab_size * H * (1 if config.tie_word_embeddings else 2)
    assert total / 1e9 == pytest.approx(BILLIONS[name], rel=0.02)
    assert config.qk_norm == (name == "qwen3-0.6b")


@pytest.mark.parametrize("kind", [{}, {"tie_word_embeddings": False, "architectures": ["LlamaForCausalLM"], "model_type": "llama"}])
def test_transformers_gets_the_same_weights(kind, monkeypatch):
    """Logits agree, tied or not, with norms of q and k or without: so each weight is the same in both models."""
    monkeypatch.setitem(dummy.SHAPES, "other", {**dummy.SHAPES["tiny"], **kind})
    path = find_model("dummy:other")
    prompt = [(7 * i) % 320 for i in range(30)]
    (ours,) = compute_logits(load(path), [prompt], [[30]])
    model = load_hf(path, torch.float32, torch.device("cpu"))
    with torch.no_grad():
        theirs = model(torch.tensor([prompt])).logits[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_an_engine_runs_a_shape_in_the_first_stage_and_in_the_best():
    """Without a tokenizer or a file; the greedy tokens are the same."""
    params = SamplingParams(temperature=0, max_tokens=8)
    outputs = []
    for stage in (HF, None):
        with LLM("dummy:tiny", stage=stage, max_model_len=64, max_num_seqs=2) as llm:
            assert llm.tokenizer is None
            outputs.append([output.outputs[0].token_ids for output in llm.generate([[5, 6, 7], [8] * 20], params)])
    assert outputs[0] == outputs[1]
    assert len(set(outputs[0][0] + outputs[0][1])) > 4


@settings(max_examples=20)
@given(st.lists(st.text("abc.", min_size=1), min_size=1, max_size=4, unique=True), st.integers(64, 128), st.sampled_from([32, 64]))
def test_weights_depend_on_their_name_alone(names, rows, columns):
    """Not on the order, nor on whether they are rows of a larger matrix; their size is that of 1 / sqrt(columns)."""
    alone = {name: torch.empty(rows, columns) for name in names}
    fused = torch.empty(len(names) * rows, columns)
    dummy.fill(alone)
    dummy.fill({name: fused[i * rows : (i + 1) * rows] for i, name in reversed(list(enumerate(names)))})
    assert torch.equal(torch.cat(list(alone.values())), fused)
    assert all(0.8 < tensor.std() * columns**0.5 < 1.2 for tensor in alone.values())
    assert len({tensor[0, 0].item() for tensor in alone.values()}) == len(names)


def test_weights_of_norms_lie_around_one():
    vector = {"norm.weight": torch.empty(1000)}
    dummy.fill(vector)
    assert vector["norm.weight"].mean() == pytest.approx(1, abs=0.02)
    assert vector["norm.weight"].std() == pytest.approx(0.1, rel=0.1)


def test_activations_stay_finite_in_bfloat16(monkeypatch):
    """Also in a deep model: each layer adds about as much as it is given."""
    monkeypatch.setitem(dummy.SHAPES, "deep", {**dummy.SHAPES["tiny"], "num_hidden_layers": 40})
    decoder = load(find_model("dummy:deep"), dtype=torch.bfloat16)
    (logits,) = compute_logits(decoder, [[3, 1, 4, 1, 5]], [[5]])
    assert logits.isfinite().all()
    assert 0.1 < logits.float().std() < 10


@pytest.mark.parametrize(
    ("name", "revision", "message"), [("dummy:huge", None, "the shapes are tiny, "), ("dummy:tiny", "main", "no revision")]
)
def test_what_is_no_shape_is_refused(name, revision, message):
    with pytest.raises(ModelError, match=message):
        find_model(name, revision)
