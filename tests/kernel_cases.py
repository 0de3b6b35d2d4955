"""Inputs of the model's kernels, for tests that run them in Triton's interpreter, on a GPU, or in C++.

Everything is made on the CPU, where the reference is computed too, and then moved to the device.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace

import torch
import torch.nn.functional as F

from minfer.inputs.static_batch import Unknown
from minfer.parts import KV
from minfer.testing import reference
from minfer.testing.batches import make_batch, make_cache, scattered_tables
from minfer.types import Batch


def attention_case(
    works: list[tuple[int, int]], heads: tuple[int, int], D: int, block_size: int, dtype: torch.dtype, layout: str = "contiguous",
    seed: int = 0,
) -> tuple[torch.Tensor, KV, Batch]:  # fmt: skip
    """(q, kv, batch) for sequences of (new tokens, context), decodes first; all of the cache that is no row's own is NaN.

    q is a view into a wider product, as in the model.
    """
    Hq, Hkv = heads
    generator = torch.Generator().manual_seed(seed)
    tables, blocks = scattered_tables([context for _, context in works], block_size, seed)
    kv = make_cache(blocks, block_size, Hkv, D, dtype, layout)
    for table, (_, context) in zip(tables, works, strict=True):
        at = torch.arange(context)
        block = torch.tensor(table, dtype=torch.int64)[at // block_size] if context else at
        for cache in kv:
            cache[block, at % block_size] = torch.randn(context, Hkv, D, generator=generator).to(dtype)
    batch = make_batch([([0] * new, context - new) for new, context in works], tables, block_size)
    q = torch.randn(len(batch.token_ids), Hq + 2 * Hkv, D, generator=generator).to(dtype)[:, :Hq]
    return q, kv, batch


def as_recorded(q: torch.Tensor, kv: KV, batch: Batch, random: random.Random) -> tuple[torch.Tensor, KV, Batch]:
    """The same as a recorded mixed step: padding tokens and rows behind it, and no lengths on the host."""
    more_tokens, more_rows = random.randint(0, 5), random.randint(0, 3)
    rows = batch.num_seqs + more_rows
    query_start, context_lens = F.pad(batch.query_start, (0, more_rows), value=len(q)), F.pad(batch.context_lens, (0, more_rows))
    padded = replace(
        batch,
        query_start=query_start,
        context_lens=context_lens,
        block_tables=F.pad(batch.block_tables, (0, 2, 0, more_rows)),
        decode_lens=torch.where(query_start.diff() == 1, context_lens, 0),
        contexts=Unknown(rows),
        query_lens=Unknown(rows),
        num_decode=0,
        recorded=True,
    )
    return torch.cat((q, torch.full_like(q[:1], torch.nan).expand(more_tokens, -1, -1))), kv, padded


class Draw:
    """Everything about one case of attention, from one seed: independent draws, where hypothesis' own are variations of each other."""

    def __init__(self, seed: int, edges: tuple[int, ...], longest: int):
        self.seed = seed
        self.random = random.Random(seed)
        self.edges, self.longest = edges, longest

    def context(self, least: int = 1) -> int:
        """Half of them next to an edge of the kernel's tiles or of a page."""
        edge = self.random.choice(self.edges) + self.random.choice((-1, 0, 1))
        return max(least, self.random.choice((edge, self.random.randint(1, self.longest))))

    def works(self, decodes: int, chunks: int) -> list[tuple[int, int]]:
        """(new tokens, context): up to so many decodes, some of them padding, then at least one chunk if there may be any."""
        works = [
            (1, self.random.choice((0, *(self.context() for _ in range(4))))) for _ in range(self.random.randint(not chunks, decodes))
        ]
        for _ in range(self.random.randint(1, chunks) if chunks else 0):
            context = self.context(least=2)
            works.append((self.random.choice((context, self.random.randint(2, context))), context))
        return works

    def window(self, works: list[tuple[int, int]]) -> int | None:
        """None, or one that hides keys of the longest context, often all of a tile."""
        longest = max(2, *(context for _, context in works))
        return self.random.choice((None, self.random.randint(1, 9), self.random.randint(1, longest), self.random.randint(1, longest)))


@contextmanager
def poison() -> Iterator[None]:
    """Memory that a part allocates is full of NaN until it writes there."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def check_attention(
    attention, case: tuple[torch.Tensor, KV, Batch], window: int | None = None, scale: float | None = None,
    device: str = "cpu", slack: float = 1.0,
) -> None:  # fmt: skip
    """The part equals the reference, leaves the cache as it was, and gives zeros to rows without context."""
    q, kv, batch = case
    scale = scale or q.shape[-1] ** -0.5
    expected = reference.attention(q, kv, batch, scale, window)
    their_kv = to_device(kv, device)
    their_q, their_batch = q.to(device), batch_to(batch, device)
    with poison():
        out = attention(their_q, their_kv, their_batch, scale, window)
    assert out.dtype == q.dtype
    reference.assert_close(out.cpu(), expected, slack)
    for cache, before in zip(their_kv, kv, strict=True):
        assert torch.equal(cache.cpu().nan_to_num(7), before.nan_to_num(7)), "attention wrote into the cache"
    for row, context in enumerate(batch.contexts):
        assert context or not out[row].any(), "a row without context must give zeros"


def to_device(kv: KV, device: str) -> KV:
    """The caches on the device, with the strides that they had: both are views of one tensor."""
    if device == "cpu":
        return kv
    k, v = kv
    whole = torch.tensor([], dtype=k.dtype).set_(k.untyped_storage()).to(device)
    return tuple(torch.as_strided(whole, each.shape, each.stride(), each.storage_offset()) for each in (k, v))


def batch_to(batch: Batch, device: str) -> Batch:
    """The batch with all tensors on the device."""

    def moved(holder):
        values = {field.name: getattr(holder, field.name) for field in fields(holder)}
        return replace(holder, **{name: value.to(device) for name, value in values.items() if isinstance(value, torch.Tensor)})

    return moved(replace(batch, sampling=moved(batch.sampling)))


def norm_case(tokens: int, size: int, dtype: torch.dtype, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(x, residual, weight)."""
    generator = torch.Generator().manual_seed(seed)
    x, residual = torch.randn(2, tokens, size, generator=generator).to(dtype).unbind()
    return x, residual, torch.rand(size, generator=generator).add(0.5).to(dtype)


def check_norm(norm, case: tuple[torch.Tensor, torch.Tensor, torch.Tensor], adds: bool, eps: float, device: str = "cpu") -> None:
    """Both outputs are right; x and residual are views of wider rows."""
    x, residual, weight = case
    residual = residual if adds else None
    expected, expected_sum = reference.norm(x, residual, weight, eps)
    theirs = [None if each is None else F.pad(each.to(device), (0, 8))[:, : x.shape[1]] for each in (x, residual)] + [weight.to(device)]
    with poison():
        y, summed = norm(*theirs, eps)
    assert y.dtype == summed.dtype == x.dtype
    reference.assert_close(summed.cpu(), expected_sum)
    reference.assert_close(y.cpu(), expected)


def check_activation(activation, tokens: int, size: int, dtype: torch.dtype, seed: int = 0, device: str = "cpu") -> None:
    gate_up = (torch.randn(tokens, 2 * size, generator=torch.Generator().manual_seed(seed)) * 4).to(dtype)
    theirs = gate_up.to(device)
    with poison():
        out = activation(theirs)
    assert out.dtype == dtype
    reference.assert_close(out.cpu(), reference.activation(gate_up))


def check_write_kv(
    write_kv, tokens: int, heads: tuple[int, int], D: int, block_size: int, dtype: torch.dtype, normed: bool,
    layout: str = "contiguous", seed: int = 0, device: str = "cpu",
) -> None:  # fmt: skip
    """The rotated q and the written slots are right, V is stored bit by bit, and no other slot of the cache is touched."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(tokens, heads[0] + 2 * heads[1], D, generator=generator).to(dtype).split((heads[0], heads[1], heads[1]), dim=1)
    )
    angles = torch.rand(tokens, D // 2, generator=generator) * 6.28
    cos, sin = torch.cat((angles.cos(), angles.sin()), dim=1).chunk(2, dim=1)  # views, as minfer.rope gives them
    norms = [torch.rand(D, generator=generator).add(0.5).to(dtype) for _ in range(2)] if normed else [None, None]
    blocks = -(-tokens // block_size) + 2
    kv = make_cache(blocks, block_size, heads[1], D, dtype, layout)
    slots = torch.randperm(blocks * block_size, generator=generator)[:tokens]
    wide = tuple(cache.double() for cache in kv)
    expected = reference.write_kv(q, k, v, cos, sin, wide, slots, *norms, 1e-5)
    arguments = (each if each is None else each.to(device) for each in (slots, *norms))
    their_kv = to_device(tuple(cache.clone() for cache in kv) if device == "cpu" else kv, device)
    product = torch.cat((q, k, v), dim=1).to(device).split((heads[0], heads[1], heads[1]), dim=1)
    cos, sin = torch.cat((cos, sin), dim=1).to(device).chunk(2, dim=1)
    arguments = (cos, sin, their_kv, *arguments)
    with poison():
        out = write_kv(*product, *arguments, 1e-5)
    assert out.dtype == dtype
    reference.assert_close(out.cpu(), expected, slack=2)
    written = torch.zeros(blocks * block_size, dtype=torch.bool).index_fill_(0, slots, True).view(blocks, block_size)
    for cache, expected_cache in zip(their_kv, wide, strict=True):
        reference.assert_close(cache.cpu()[written], expected_cache[written], slack=2)
        assert cache.cpu()[~written].isnan().all(), "a slot that belongs to no token was written"
    assert torch.equal(their_kv[1].cpu()[written].sort(0).values, v.sort(0).values), "v must be stored as it is"


def linear_case(tokens: int, num_in: int, num_out: int, dtype: torch.dtype, bias: bool, seed: int = 0) -> tuple:
    """(x, weight, bias or None), with outputs of about 1."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, num_in, generator=generator).to(dtype)
    weight = (torch.randn(num_out, num_in, generator=generator) * num_in**-0.5).to(dtype)
    return x, weight, torch.randn(num_out, generator=generator).to(dtype) if bias else None


def check_linear(linear, case: tuple, device: str = "cpu") -> None:
    """The product of x, which is a view of wider rows."""
    x, weight, bias = (None if each is None else each.to(device) for each in case)
    wide = F.pad(x, (0, 8))[:, : x.shape[1]]
    with poison():
        out = linear(wide, weight, bias)
    assert out.dtype == x.dtype
    reference.assert_close(out.cpu(), reference.linear(*case))
