"""The decoder's logits equal transformers' own model, eager attention, for every variant of every family."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from test_rope import any_rope

from minfer.model import Decoder
from minfer.model_config import ModelConfig
from minfer.testing.checkpoints import KINDS, make_checkpoint
from minfer.testing.decoding import TORCH_FUNCTIONS, compute_logits, load

LONGEST = 64  # max_position_embeddings; prompts go beyond it, so that dynamic RoPE scales


def theirs(path: Path, dtype: torch.dtype = torch.float32):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=dtype).eval()


@torch.inference_mode()
def their_logits(path: Path, prompt: list[int], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return theirs(path, dtype)(torch.tensor([prompt]), use_cache=False).logits[0]


def assert_same_logits(ours: torch.Tensor, expected: torch.Tensor) -> None:
    """Equal to 1e-4 of the largest logit. The models here have large weights, so that errors grow more than in trained ones."""
    assert ours.shape == expected.shape
    error = (ours - expected).abs().amax(-1)
    limit = 1e-4 * expected.abs().max()
    assert error.max() <= limit, f"error {error.max():.1e} above {limit:.1e}, first at position {int((error > limit).int().argmax())}"


@st.composite
def variants(draw) -> tuple[str, dict]:
    """A family and a config of it."""
    kind = draw(st.sampled_from(KINDS))
    heads, kv_heads = draw(st.sampled_from([(1, 1), (4, 4), (6, 2), (9, 3), (8, 1), (7, 1), (4, 2)]))
    config = {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": heads * draw(st.sampled_from([4, 6])),
        "intermediate_size": draw(st.sampled_from([16, 50])),
        "head_dim": draw(st.sampled_from([8, 24, 80, 96])),
        "num_hidden_layers": draw(st.sampled_from([1, 2, 3])),
        "vocab_size": draw(st.sampled_from([50, 320])),
        "tie_word_embeddings": draw(st.booleans()),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-2])),
        "max_position_embeddings": LONGEST,
        "rope_parameters": draw(any_rope),
    }
    if kind in ("llama", "qwen3"):
        config["attention_bias"] = draw(st.booleans())
    if kind == "llama":
        config["mlp_bias"] = draw(st.booleans())
    if kind == "mistral":
        config["sliding_window"] = draw(st.one_of(st.none(), st.integers(1, 40)))
    if kind in ("qwen2", "qwen3"):
        config["use_sliding_window"] = draw(st.booleans())
        config["sliding_window"] = draw(st.integers(1, 40))
        config["max_window_layers"] = draw(st.integers(0, config["num_hidden_layers"]))
    return kind, config


prompts = st.integers(1, 100).flatmap(lambda n: st.lists(st.integers(0, 49), min_size=n, max_size=n))
chunk_sizes = st.one_of(st.just([100]), st.lists(st.integers(1, 30), max_size=6))


@settings(deadline=None, max_examples=100)
@given(
    variant=variants(),
    prompt=prompts,
    sizes=chunk_sizes,
    seed=st.integers(0, 9),
    block_size=st.sampled_from([1, 4, 16]),
    shard=st.sampled_from(["1GB", "8KB"]),
)
def test_logits_equal_transformers(variant, prompt, sizes, seed, block_size, shard):
    """Prompt in chunks, then token by token, out of scattered pages; from one file or from many."""
    kind, config = variant
    event(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = make_checkpoint(Path(folder), kind, seed, max_shard_size=shard, **config)
        (ours,) = compute_logits(load(path), [prompt], [sizes], block_size)
        assert_same_logits(ours, their_logits(path, prompt))


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
@pytest.mark.parametrize(
    "windows",
    [{"max_window_layers": 1}, {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}],
    ids=["max_window_layers", "layer_types"],
)
def test_each_layer_has_its_own_window(kind, windows, tmp_path):
    """Windowed and full layers in one model, in either way of writing it down."""
    path = make_checkpoint(tmp_path, kind, num_hidden_layers=3, use_sliding_window=True, sliding_window=5, **windows)
    (ours,) = compute_logits(load(path), [list(range(30))], [[11, 9]])
    assert_same_logits(ours, their_logits(path, list(range(30))))


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_batch_mates_do_not_matter(kind, data, tmp_path_factory):
    """Prompts computed together, in chunks that meet in mixed batches, give what each gives alone."""
    path = tmp_path_factory.getbasetemp() / f"mates-{kind}"
    if not path.exists():
        make_checkpoint(path, kind, **({"sliding_window": 7} if kind == "mistral" else {}))
    batch = data.draw(st.lists(prompts, min_size=2, max_size=4), "prompts")
    sizes = [data.draw(chunk_sizes, "chunks") for _ in batch]
    model = theirs(path)
    for ours, prompt in zip(compute_logits(load(path), batch, sizes), batch, strict=True):
        with torch.inference_mode():
            assert_same_logits(ours, model(torch.tensor([prompt]), use_cache=False).logits[0])


@pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated:FutureWarning")  # its new name is too new
def test_dynamic_rope_while_generating(tmp_path):
    """Keys keep the rotation they were computed with; each new token is turned for the length reached: as transformers' cache."""
    rope = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 3.0}
    path = make_checkpoint(tmp_path, "llama", max_position_embeddings=LONGEST, rope_parameters=rope)
    ids = torch.randint(0, 320, (90,), generator=torch.Generator().manual_seed(0)).tolist()
    for prompt in (40, 70):  # generation crosses the limit; the prompt is already beyond it
        model, expected, cache = theirs(path), [], None
        with torch.inference_mode():
            for piece in (ids[:prompt], *([token] for token in ids[prompt:])):
                out = model(torch.tensor([piece]), past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                expected.append(out.logits[0])
        (ours,) = compute_logits(load(path), [ids], [[prompt]], prompt_lens=[prompt])
        assert_same_logits(ours, torch.cat(expected))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_follows_transformers(kind, dtype, tmp_path):
    """In half precision the model is as exact as transformers' own; decoding rounds where it rounds, so that they nearly agree."""
    path = make_checkpoint(tmp_path, kind, initializer_range=0.1)
    prompt = torch.randint(0, 320, (40,), generator=torch.Generator().manual_seed(1)).tolist()
    decoder = load(path, dtype=dtype)
    expected = their_logits(path, prompt, dtype).float()
    exact = their_logits(path, prompt)

    def distance(a: torch.Tensor, b: torch.Tensor) -> float:
        return (a - b).square().mean().sqrt().item()

    rounding = distance(expected, exact)  # what half precision costs transformers itself
    for sizes, limit in (([40], 1.1), ([7, 20], 1.1), ([1], 0.5)):
        (ours,) = compute_logits(decoder, [prompt], [sizes])
        assert ours.dtype == dtype
        assert distance(ours.float(), exact) <= 1.2 * rounding
        assert distance(ours.float(), expected) <= limit * rounding


def test_heads_are_counted_from_the_projection(tmp_path):
    """A decoder whose projections are cut by heads from outside computes its share: the shares of o_proj add up."""
    path = make_checkpoint(tmp_path, num_attention_heads=6, num_key_value_heads=2, num_hidden_layers=1)
    whole = load(path)
    config, D = whole.config, whole.config.head_dim
    partial_sums = []
    for rank in range(2):
        part = Decoder(config, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
        part.load_state_dict(whole.state_dict())
        attention = part.layers[0].self_attn
        q, k, v = attention.qkv_proj.weight.split((6 * D, 2 * D, 2 * D))
        mine = torch.cat([x.chunk(2)[rank] for x in (q, k, v)])
        attention.qkv_proj.weight = torch.nn.Parameter(mine, requires_grad=False)
        columns = attention.o_proj.weight.chunk(2, dim=1)[rank]
        attention.o_proj.weight = torch.nn.Parameter(columns.contiguous(), requires_grad=False)
        part.layers[0].self_attn.register_forward_hook(lambda _, __, out: partial_sums.append(out.clone()))
        compute_one(part, kv_heads=1)
    whole.layers[0].self_attn.register_forward_hook(lambda _, __, out: partial_sums.append(out.clone()))
    compute_one(whole, kv_heads=2)
    torch.testing.assert_close(partial_sums[0] + partial_sums[1], partial_sums[2], rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def compute_one(decoder: Decoder, kv_heads: int) -> None:
    from minfer.testing.batches import make_batch, make_cache

    kv = [make_cache(4, 4, kv_heads, decoder.config.head_dim, torch.float32)]
    decoder(make_batch([(list(range(10)), 0)], [[3, 1, 2]], 4), kv)


def test_tied_weights_are_one_tensor(tmp_path):
    """Tied embeddings take no second copy; untied ones have their own head."""
    tied = load(make_checkpoint(tmp_path / "tied", tie_word_embeddings=True))
    assert tied.lm_head.weight is tied.embed_tokens.weight
    untied = load(make_checkpoint(tmp_path / "untied", tie_word_embeddings=False))
    assert not torch.equal(untied.lm_head.weight, untied.embed_tokens.weight)


def test_config_of_a_real_save(tmp_path):
    """What transformers writes is read back as it was meant."""
    config = ModelConfig.load(make_checkpoint(tmp_path, "qwen3", head_dim=24, eos_token_id=[2, 5]))
    assert (config.head_dim, config.qk_norm, config.eos_ids, config.bos_id, config.pad_id) == (24, True, (2, 5), 1, 0)
