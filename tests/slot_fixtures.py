"""Sequences and a K/V cache of plain numbers, so that `blocks`, `policy` and `preemption` parts can be tested without an engine.

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


class PrefixCache:
    """Device and host memory that hold, in the place of a token's K/V, a number made of it and of all before it, as K/V are.

    What nobody wrote is -1.
    """

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
            self.pools["device"][seq.block_table[block], offset] = _number(seq, position)
        seq.num_computed += num_new

    def check(self, seq: Sequence) -> None:
        """What attention would read through the sequence's block table is its own."""
        found = self.pools["device"][seq.block_table].reshape(-1)[: seq.num_computed].tolist() if seq.block_table else []
        assert found == [_number(seq, position) for position in range(seq.num_computed)], "another sequence's K/V"


def _number(seq: Sequence, position: int) -> int:
    return hash(tuple(seq.token_ids[: position + 1]))
