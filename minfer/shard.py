"""Tensor parallelism from outside the model: which part of each weight a rank holds, and where the ranks' results are added up.

A rank holds some of the query heads with the K/V heads that they read, a part of the MLP's width, and a part of the head's
vocabulary. Its decoder is an ordinary one of that smaller shape: what it computes behind `o_proj` and `down_proj` is one addend of
the whole model's value there. The sum over the ranks is taken there and nowhere else.

    x (the same on every rank) → q|k|v of its heads → attention → its columns of o_proj → sum over the ranks → norm
                               → its part of gate|up → silu·mul → its columns of down_proj → sum over the ranks → next layer
    last norm → its rows of the head → its part of the logits, put together from all ranks → every rank samples the same token

From: `executor/rank.py` says which rank of how many. To: `weights.py` reads no more than the cuts; `executor/group.py` adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from torch import nn

from minfer.errors import MinferError
from minfer.model_config import ModelConfig

if TYPE_CHECKING:
    from minfer.executor.group import Group
    from minfer.model import Decoder


class Cut(NamedTuple):
    """A rank's part of a checkpoint's tensor: these ranges of one dimension, one after the other. What they leave of the place is 0."""

    dim: int
    length: int  # of the whole tensor in that dimension
    ranges: list[tuple[int, int]]


@dataclass(frozen=True)
class Shard:
    """What rank `rank` of `size` holds of a model; with one rank, all of it."""

    whole: ModelConfig
    rank: int = 0
    size: int = 1

    @cached_property
    def kv_heads(self) -> list[int]:
        """The whole model's K/V heads behind this rank's ones, in order. One may come twice, or live on several ranks.

        The rank's query heads are read in runs as long as possible that all share a K/V head: the greatest common divisor of the
        model's query heads per K/V head, and the rank's query heads. 8 K/V heads on 2 ranks: 4 each. 2 on 4: each on two ranks.
        3 with 6 query heads on 2: 0, 0, 1 and 1, 2, 2.
        """
        mine, shared = self.whole.num_heads // self.size, self.whole.num_heads // self.whole.num_kv_heads
        # ch14 task1: the K/V head behind the first query head of each run
        return [(self.rank * mine + at) // shared for at in range(0, mine, gcd(mine, shared))]
        # end of ch14 task1

    @cached_property
    def model(self) -> ModelConfig:
        """The shape of the rank's decoder. Its embeddings are whole, since a step looks up a few rows only."""
        whole = self.whole
        return replace(
            whole,
            num_heads=whole.num_heads // self.size,
            num_kv_heads=len(self.kv_heads),
            intermediate_size=-(-whole.intermediate_size // self.size),
        )

    @property
    def vocab(self) -> tuple[int, int]:
        """The rank's part of the head's vocabulary; the last ranks may have less of it."""
        return self._share(self.whole.vocab_size)

    def cut(self, name: str) -> Cut | None:
        """The rank's part of the checkpoint's tensor of that name; None: the whole tensor."""
        if self.size == 1:
            return None
        whole, D = self.whole, self.whole.head_dim
        heads = whole.num_heads * D
        # ch14 task2: which rows or columns of each tensor are the rank's; a bias that is added before a sum counts once
        q = [(self.rank * heads // self.size, (self.rank + 1) * heads // self.size)]
        kv = Cut(0, whole.num_kv_heads * D, [(head * D, (head + 1) * D) for head in self.kv_heads])
        mlp = [self._share(whole.intermediate_size)]
        once = Cut(0, whole.hidden_size, [(0, whole.hidden_size)] if self.rank == 0 else [])  # a bias counts once in the sum
        cuts = {
            "q_proj.weight": Cut(0, heads, q),
            "q_proj.bias": Cut(0, heads, q),
            "k_proj.weight": kv,
            "k_proj.bias": kv,
            "v_proj.weight": kv,
            "v_proj.bias": kv,
            "o_proj.weight": Cut(1, heads, q),
            "o_proj.bias": once,
            **{f"{each}_proj.{kind}": Cut(0, whole.intermediate_size, mlp) for each in ("gate", "up") for kind in ("weight", "bias")},
            "down_proj.weight": Cut(1, whole.intermediate_size, mlp),
            "down_proj.bias": once,
            "lm_head.weight": Cut(0, whole.vocab_size, [self.vocab]),
        }
        return cuts.get(".".join(name.split(".")[-2:]))
        # end of ch14 task2

    def connect(self, decoder: Decoder, group: Group) -> None:
        """Add up over the ranks behind each `o_proj` and `down_proj`, and put the logits together behind the head.

        A module's forward hook may return what stands for its output.
        """
        width, size = -(-self.whole.vocab_size // self.size), self.whole.vocab_size
        # ch14 task3: hooks that add up behind o_proj and down_proj, and put the head's columns together, without the padding
        for layer in decoder.layers:
            for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
                projection.register_forward_hook(lambda module, arguments, out: group.all_reduce(out))
        decoder.lm_head.register_forward_hook(lambda module, arguments, out: group.gather(out, width)[:, :size].contiguous())
        # end of ch14 task3

    def _share(self, length: int) -> tuple[int, int]:
        """This rank's range of a dimension that is dealt out in equal parts, as far as it reaches."""
        part = -(-length // self.size)
        return min(self.rank * part, length), min((self.rank + 1) * part, length)


def check_size(model: ModelConfig, size: int) -> None:
    """Refuse a number of ranks that cannot share the query heads evenly.

    Raises:
        MinferError: with the numbers that can.
    """
    heads = model.num_heads
    if heads % size:
        possible = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise MinferError(
            f"tensor_parallel_size={size} does not divide the model's {heads} query heads ({model.num_kv_heads} K/V heads): "
            f"each rank must hold as many; take one of {possible}"
        )


def cut_head(decoder: Decoder, shard: Shard) -> None:
    """Give a new decoder of the shape `shard.model` a head with the rank's rows only; rows of the embeddings where these are tied."""
    start, stop = shard.vocab
    rows = decoder.lm_head.weight[start:stop]
    if not shard.whole.tie_word_embeddings:
        rows = rows.clone()  # so that the memory of the others is free again
    decoder.lm_head.weight = nn.Parameter(rows, requires_grad=False)
