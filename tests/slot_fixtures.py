"""Sequences and a K/V cache of token ids, so that `blocks`, `policy` and `preemption` parts can be tested without an engine.

From: nothing. To: the tests of those slots.
"""

from __future__ import annotations

import itertools

import numpy as np

from minfer.params import SamplingParams
from minfer.types import Request, Sampling, Sequence

_ids = itertools.count()


def make_seq(prompt: list[int], parent: Sequence | None = None, salt: int = 0, priority: int = 0, user: str = "") -> Sequence:
    """A sequence with nothing computed; with a parent, a later completion of the same request."""
    params = SamplingParams()
    request = parent.request if parent else Request("r", tuple(prompt), params, priority=priority, user=user, cache_salt=salt)
    sampling = Sampling(params, 0, (), len(prompt))
    index = 1 if parent else 0
    return Sequence(next(_ids), request, index, sampling, list(prompt), len(prompt), limit=10**6, parent=parent)


class TokenCache:
    """Device and host memory that hold token ids in the place of K/V. What nobody wrote is -1."""

    def __init__(self, num_blocks: int, num_host_blocks: int, block_size: int):
        self.block_size = block_size
        self.pools = {"device": np.full((num_blocks, block_size), -1), "host": np.full((num_host_blocks, block_size), -1)}

    def copy(self, copies: list) -> None:
        """Carry out a plan's copies in order, and empty the list."""
        for kind, src, dst in copies:
            source, target = self.pools["host" if kind == "in" else "device"], self.pools["host" if kind == "out" else "device"]
            target[dst] = source[src]
        copies.clear()

    def compute(self, seq: Sequence, num_new: int) -> None:
        """Write the sequence's next tokens through its block table."""
        for position in range(seq.num_computed, seq.num_computed + num_new):
            block, offset = divmod(position, self.block_size)
            self.pools["device"][seq.block_table[block], offset] = seq.token_ids[position]
        seq.num_computed += num_new

    def read(self, seq: Sequence) -> list[int]:
        """What attention would read: the sequence's computed tokens through its block table."""
        return self.pools["device"][seq.block_table].reshape(-1)[: seq.num_computed].tolist() if seq.block_table else []
