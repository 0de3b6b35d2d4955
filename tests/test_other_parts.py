"""Parts that are right and unlike minfer's own: a suite must not ask how a part works, only what it does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from minfer.testing.checking import check
from minfer.testing.report import explain
from minfer.testing.suites import suite_of
from minfer.testing.target import find_target


class SetOfBlocks:
    """Blocks twice as large as asked for, kept in a set."""

    def __init__(self, num_blocks, block_size):
        self.block_size, self.num_total, self.copies = block_size, num_blocks - 1, []
        self.left = set(range(1, num_blocks))

    @staticmethod
    def size_of_block(config):
        return 2 * config.block_size

    @property
    def num_free(self):
        return len(self.left)

    def lookup(self, seq):
        return 0

    def match(self, seq):
        return 0

    def allocate(self, seq, num_tokens, keep=0):
        missing = -(-num_tokens // self.block_size) - len(seq.block_table)
        if missing > 0 and missing + keep > len(self.left):
            return False
        seq.block_table += [self.left.pop() for _ in range(missing)]
        return True

    def commit(self, seq):
        pass

    def free(self, seq):
        self.left.update(seq.block_table)
        seq.block_table.clear()


def wide_norm(x, residual, weight, eps):
    """In float64, rounded once."""
    r = x.double() + (0 if residual is None else residual.double())
    return (r * torch.rsqrt(r.pow(2).mean(-1, keepdim=True) + eps) * weight.double()).to(x.dtype), r.to(x.dtype)


def activation_in_place(gate_up):
    """The result is a view of the input, whose rows lie apart."""
    gate, up = gate_up.chunk(2, dim=-1)
    gate.copy_(torch.nn.functional.silu(gate.float()).to(gate.dtype))
    return gate.mul_(up)


def slow_attention(q, kv, batch, scale, window):
    """Token by token; the result is a view of something wider."""
    size, group = kv[0].shape[1], q.shape[1] // kv[0].shape[2]
    wide = q.new_zeros(q.shape[0], q.shape[1] + 1, q.shape[2])
    out, token = wide[:, :-1], 0
    for table, new, context in zip(batch.block_tables.long(), batch.query_lens, batch.contexts, strict=True):
        if context == 0:  # padding
            token += new
            continue
        for position in range(context - new, context):
            at = torch.arange(max(0, position - window + 1) if window else 0, position + 1)
            k, v = (cache[table[at // size], at % size].repeat_interleave(group, 1).double() for cache in kv)
            weights = (torch.einsum("hd,khd->hk", q[token].double(), k) * scale).softmax(-1)
            out[token] = torch.einsum("hk,khd->hd", weights, v).to(q.dtype)
            token += 1
    return out


@pytest.mark.parametrize(
    ("slot", "part"),
    [("blocks", SetOfBlocks), ("norm", wide_norm), ("activation", activation_in_place), ("attention", slow_attention)],
)
def test_another_part_that_is_right_passes(slot: str, part: Any):
    target = find_target(slot, f"{__file__}:{part.__name__}")
    for prop in suite_of(slot):
        result = check(prop, target.part, target.place, max(3, prop.examples // 4))
        assert result.passed, "\n".join(explain(result, target))
