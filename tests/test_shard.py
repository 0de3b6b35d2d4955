"""Cuts of a model: the ranks' decoders together compute what the whole one does, and each reads no more than its part."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minfer import dummy, weights
from minfer.errors import MinferError, ModelError
from minfer.model_config import ModelConfig
from minfer.shard import Shard, check_size
from minfer.testing.checkpoints import make_checkpoint
from minfer.testing.decoding import TORCH_FUNCTIONS, compute_logits, load
from minfer.testing.tiny import CONFIG

few = settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])


class Threads:
    """A group whose ranks are threads, for tests without processes: one instance a rank, over what they share."""

    def __init__(self, rank: int, size: int, shared: dict):
        self.rank, self.size, self.shared = rank, size, shared

    def _exchange(self, x: torch.Tensor) -> list[torch.Tensor]:
        """What every rank brings, in their order."""
        self.shared["values"][self.rank] = x.clone()
        self.shared["barrier"].wait(60)
        values = list(self.shared["values"])
        self.shared["barrier"].wait(60)
        return values

    def all_reduce(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack(self._exchange(x)).sum(0)

    def gather(self, x: torch.Tensor, width: int) -> torch.Tensor:
        return torch.cat([torch.nn.functional.pad(each, (0, width - each.shape[1])) for each in self._exchange(x)], 1)


@st.composite
def shapes(draw) -> tuple[str, dict, int]:
    """A family, a config, and a number of ranks that divides the query heads; K/V heads, MLP and vocabulary may not divide."""
    kind = draw(st.sampled_from(["llama", "qwen2", "qwen3", "mistral"]))
    kv_heads, shared = draw(st.sampled_from([(1, 4), (1, 6), (2, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 3), (6, 1)]))
    heads = kv_heads * shared
    size = draw(st.sampled_from([n for n in (2, 3, 4, 6) if heads % n == 0] or [1]))
    config = {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": 24,
        "head_dim": draw(st.sampled_from([4, 8])),
        "intermediate_size": draw(st.sampled_from([16, 17, 5, 30])),
        "vocab_size": draw(st.sampled_from([50, 251, 320])),
        "num_hidden_layers": draw(st.sampled_from([1, 2])),
        "tie_word_embeddings": draw(st.booleans()),
    }
    if kind in ("llama", "qwen3"):
        config["attention_bias"] = draw(st.booleans())
    if kind == "llama":
        config["mlp_bias"] = draw(st.booleans())
    return kind, config, size


def load_rank(path: Path, shard: Shard, group: Threads):
    decoder = weights.load_decoder(path, shard, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
    shard.connect(decoder, group)
    return decoder


def logits_of_ranks(path: Path, size: int, prompts: list[list[int]], chunks: list[list[int]]) -> list[list[torch.Tensor]]:
    """Each rank's logits of every prompt."""
    shared = {"values": [None] * size, "barrier": threading.Barrier(size)}
    config = ModelConfig.load(path)
    decoders = [load_rank(path, Shard(config, rank, size), Threads(rank, size, shared)) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda decoder: compute_logits(decoder, prompts, chunks), decoders))


@few
@given(shapes(), st.lists(st.integers(3, 49), min_size=1, max_size=9), st.integers(0, 99))
def test_ranks_together_are_the_whole_model(shape, prompt, seed):
    """Logits of prompts in chunks and token by token, with every kind of bias, norm and head: the whole model's, on every rank."""
    kind, config, size = shape
    prompts, chunks = [prompt, prompt[::-1]], [[2, 1, 3], [4]]
    with tempfile.TemporaryDirectory() as folder:
        path = make_checkpoint(Path(folder), kind, seed, **config)
        expected = compute_logits(load(path), prompts, chunks)
        for found in logits_of_ranks(path, size, prompts, chunks):
            for ours, theirs in zip(found, expected, strict=True):
                assert ours.shape == theirs.shape, "padding of the vocabulary must not be seen"
                assert (ours - theirs).abs().max() <= 1e-4 * theirs.abs().max()


@few
@given(shapes())
def test_the_cuts_cover_everything(shape):
    """Each column and row of a dealt-out tensor is held once; a K/V head at least once, and by whoever has query heads that read it."""
    _, config, size = shape
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    model = replace(CONFIG, num_heads=heads, num_kv_heads=kv_heads, intermediate_size=config["intermediate_size"], vocab_size=251)
    shards = [Shard(model, rank, size) for rank in range(size)]
    for name in ("q_proj.weight", "o_proj.weight", "up_proj.bias", "down_proj.weight", "lm_head.weight"):
        cuts = [shard.cut(f"model.layers.0.some.{name}") for shard in shards]
        if size > 1:
            held = [at for cut in cuts for start, stop in cut.ranges for at in range(start, stop)]
            assert held == list(range(cuts[0].length)), name
    for shard in shards:
        mine, per_head = heads // size, heads // kv_heads
        wanted = {(shard.rank * mine + at) // per_head for at in range(mine)}
        assert set(shard.kv_heads) == wanted
        assert mine % len(shard.kv_heads) == 0, "a rank's query heads share its K/V heads evenly"
        runs = mine // len(shard.kv_heads)
        assert [head for head in shard.kv_heads for _ in range(runs)] == [(shard.rank * mine + at) // per_head for at in range(mine)]
    if kv_heads % size == 0:
        assert sorted(head for shard in shards for head in shard.kv_heads) == list(range(kv_heads)), "no K/V head is held twice"


class Counted:
    """One of safetensors' slices that notes how many numbers are read."""

    def __init__(self, tensor, read: list[int]):
        self.tensor, self.read, self.get_shape = tensor, read, tensor.get_shape

    def __getitem__(self, index) -> torch.Tensor:
        part = self.tensor[index]
        self.read.append(part.numel())
        return part


@pytest.mark.parametrize("tied", [False, True])
def test_a_rank_reads_and_holds_its_part(tmp_path, monkeypatch, tied):
    """Half of each projection is read from the file, and half of it is in memory; the embeddings are whole."""
    path = make_checkpoint(tmp_path, "llama", tie_word_embeddings=tied)
    read: list[int] = []
    original = weights.read_tensors
    monkeypatch.setattr(weights, "read_tensors", lambda path: ((name, Counted(tensor, read)) for name, tensor in original(path)))
    config = ModelConfig.load(path)
    whole, rank = Shard(config), Shard(config, 1, 2)
    weights.load_decoder(path, whole, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
    everything = sum(read)
    read.clear()
    decoder = weights.load_decoder(path, rank, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
    same = config.hidden_size * (config.vocab_size + 2 * config.num_layers + 1)  # embeddings and norms
    assert sum(read) == same + (everything - same) // 2
    own = {id(parameter): parameter for name, parameter in decoder.named_parameters() if not (tied and name == "lm_head.weight")}
    assert sum(parameter.numel() for parameter in own.values()) == sum(read)
    assert decoder.lm_head.weight.untyped_storage().nbytes() == 4 * config.hidden_size * config.vocab_size // (1 if tied else 2)


def test_shapes_with_random_weights_are_cut_alike():
    """A rank of a dummy model has the whole one's numbers."""
    path = dummy.find_shape("dummy:tiny")
    config = ModelConfig.load(path)
    whole = weights.load_decoder(path, config, TORCH_FUNCTIONS, torch.float32, "cpu", 64)
    rank = weights.load_decoder(path, Shard(config, 1, 2), TORCH_FUNCTIONS, torch.float32, "cpu", 64)
    D = config.head_dim
    assert torch.equal(rank.layers[1].self_attn.o_proj.weight, whole.layers[1].self_attn.o_proj.weight[:, 2 * D :])
    assert torch.equal(rank.layers[0].self_attn.qkv_proj.weight[: 2 * D], whole.layers[0].self_attn.qkv_proj.weight[2 * D : 4 * D])
    assert torch.equal(rank.lm_head.weight, whole.lm_head.weight[160:])


def test_what_cannot_be_cut_is_refused_with_the_numbers():
    """Query heads that the ranks cannot share."""
    with pytest.raises(MinferError, match=r"tensor_parallel_size=4 does not divide the model's 6 query heads .*one of 1, 2, 3, 6"):
        check_size(replace(CONFIG, num_heads=6), 4)
    check_size(replace(CONFIG, num_heads=6), 3)


def test_a_misshapen_tensor_is_refused_by_a_rank_too(tmp_path):
    """Whole shapes are compared, not the cuts."""
    path = make_checkpoint(tmp_path, "llama")
    config = replace(ModelConfig.load(path), intermediate_size=98)
    with pytest.raises(ModelError, match=r"has shape \[48, 96\], but config.json asks for \[48, 98\]"):
        weights.load_decoder(path, Shard(config, 0, 2), TORCH_FUNCTIONS, torch.float32, "cpu", 64)
