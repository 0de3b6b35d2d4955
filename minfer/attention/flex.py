"""Slot `attention` by PyTorch's FlexAttention: the mask is written as a function of two indices, and compiled into the kernel.

From: `write_kv`, which has just put this step's K and V into the cache. To: the o projection of `model.py`.

The contexts of all sequences are copied out of their pages, one after another, so that P keys face T queries in one call: a query
sees a key that belongs to the same sequence and is not after it. A block mask keeps the kernel from visiting blocks of keys that
nobody in a block of queries sees. T and P are filled up to powers of two, since each pair of sizes is compiled by itself, for some
seconds. Shown for its brevity: the copy, and the block mask that is made anew in every layer, cost more than attention itself
(Dong et al., "Flex Attention", 2024, arXiv:2412.05496).
"""

from __future__ import annotations

import functools

import torch
import torch._dynamo
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from minfer.attention.torch import find_rows, read
from minfer.parts import KV
from minfer.types import Batch

needs = {"compiler"}

LEAST = 128  # FlexAttention's own block
NOBODY = -1


@functools.cache
def compiled():
    return torch.compile(flex_attention, dynamic=False)


def attention(q: torch.Tensor, kv: KV, batch: Batch, scale: float, window: int | None) -> torch.Tensor:
    """See `minfer.parts.Attention`. A row whose context is 0 gives zeros."""
    (T, _, D), (_, _, Hkv, _) = q.shape, kv[0].shape
    contexts, ends = batch.context_lens.long(), batch.query_start[1:].long()
    rows = torch.arange(batch.num_seqs, device=q.device)
    key_owner = rows.repeat_interleave(contexts)  # [P]: whose key it is, and where it stands in its sequence
    key_position = torch.arange(len(key_owner), device=q.device) - (contexts.cumsum(0) - contexts)[key_owner]
    query_owner = rows.repeat_interleave(ends.diff(prepend=ends.new_zeros(1)))  # [T]
    query_position = torch.arange(T, device=q.device) - (ends - contexts)[query_owner]

    where = find_rows(key_position[:, None], batch.block_tables[key_owner], kv[0]).view(-1, Hkv).T.flatten()  # head by head
    keys, values = (fill(read(cache, where).view(1, Hkv, -1, D), 0.0, dim=2) for cache in kv)
    queries = fill(q.transpose(0, 1)[None], 0.0, dim=2)
    key_owner, key_position = fill(key_owner, NOBODY), fill(key_position, 0)
    query_owner, query_position = fill(query_owner, NOBODY), fill(query_position, 0)

    def sees(b, h, query, key):
        ago = query_position[query] - key_position[key]
        return (query_owner[query] == key_owner[key]) & (ago >= 0) & (ago < (window or 2**30))

    mask = create_block_mask(sees, None, None, queries.shape[2], keys.shape[2], device=q.device)
    with torch._dynamo.config.patch(recompile_limit=256):  # beyond it PyTorch would compute all of the T P scores
        out = compiled()(queries, keys, values, block_mask=mask, scale=scale, enable_gqa=True)
    return out[0, :, :T].transpose(0, 1)


def fill(x: torch.Tensor, value: float, dim: int = 0) -> torch.Tensor:
    """Make a dimension as long as the next power of two, LEAST at least."""
    more = max(LEAST, 1 << (x.shape[dim] - 1).bit_length()) - x.shape[dim]
    return F.pad(x, [0, 0] * (x.dim() - 1 - dim) + [0, more], value=value).contiguous()
