"""An executor without a model: its K/V cache holds numbers, and the next token is a hash of those that it reads there.

A token's number is made of the token and of the number before it, which is read from the cache too. So every block table, slot, copy
and position that a scheduler, a `blocks` part or a `preemption` part gets wrong changes the tokens, thousands of steps a second; and
so does a block of the same tokens that come after others. `expected` is the same function without a cache.
"""

from __future__ import annotations

import zlib
from types import SimpleNamespace

import numpy as np

from minfer.types import Plan, Sampled, Sampling

GARBAGE = -1  # what a slot holds before anything is written to it
WORD = 2**32 - 1


def remember(before: int, token: int) -> int:
    """The number in place of a token's K/V: as in a model of several layers, it depends on all tokens so far."""
    return zlib.crc32(token.to_bytes(8, "little", signed=True), before & WORD)


def next_token(numbers: list[int], sampling: Sampling, vocab_size: int) -> int:
    """The toy model: a hash of the numbers of all tokens so far and of the seed."""
    return zlib.crc32(np.array([sampling.seed, *numbers], np.int64).tobytes()) % vocab_size


def expected(prompt: list[int], sampling: Sampling, limit: int, vocab_size: int) -> list[int]:
    """The output tokens of one sequence: until a stop id or `limit` tokens in all."""
    output: list[int] = []
    numbers: list[int] = []
    while len(prompt) + len(output) < limit:
        for token in output[-1:] if numbers else prompt:
            numbers.append(remember(numbers[-1] if numbers else 0, token))
        output.append(next_token(numbers, sampling, vocab_size))
        if output[-1] in sampling.stop_ids and len(output) >= sampling.params.min_tokens:
            break
    return output


def toy_config(**options) -> SimpleNamespace:
    """What schedulers and blocks read of an EngineConfig."""
    defaults = {"max_num_seqs": 4, "max_num_batched_tokens": 8, "max_model_len": 64, "block_size": 4}
    return SimpleNamespace(**{**defaults, **options})


class ToyExecutor:
    """Carries out plans on an array of numbers, and checks each plan's form on the way."""

    def __init__(self, config, num_blocks: int, num_host_blocks: int, block_size: int, vocab_size: int = 97):
        self.max_num_seqs = config.max_num_seqs
        self.block_size = block_size
        self.vocab_size = vocab_size
        self.device_pool = np.full((num_blocks, block_size), GARBAGE)
        self.host_pool = np.full((num_host_blocks, block_size), GARBAGE)
        self.tables: dict[int, list[int]] = {}
        self.last_ids: dict[int, int] = {}  # by row: the token sampled last, which a plan need not know yet
        self.steps: list[Plan] = []

    def launch(self, plan: Plan) -> ToyPending:
        self.steps.append(plan)
        for kind, src, dst in plan.copies:
            source = self.host_pool if kind == "in" else self.device_pool
            target = self.host_pool if kind == "out" else self.device_pool
            target[dst] = source[src]
        for row in plan.freed_rows:
            self.tables.pop(row, None)
            self.last_ids.pop(row, None)
        rows = [work.row for work in plan.work]
        gone = [work.seq_id for work in plan.work if work.row is None]
        assert not gone, f"sequences {gone} are planned and hold no row: they gave way earlier in the same step"
        assert len(set(rows)) == len(rows), "two sequences share a row"
        assert all(0 <= row < self.max_num_seqs for row in rows), "a row is out of range"
        lengths = [work.num_new for work in plan.work]
        assert [n for n in lengths if n == 1] == lengths[: lengths.count(1)], "works of one token must come first"
        for work in plan.work:
            self._write(work)
        return ToyPending(Sampled([self._sample(work) for work in plan.work if work.samples]))

    def _write(self, work) -> None:
        table = self.tables.setdefault(work.row, [])
        table.extend(work.new_blocks)
        assert 0 not in table, "block 0 is the padding block"
        length, room = work.start + work.num_new, len(table) * self.block_size
        assert length <= room, (
            f"row {work.row} has {len(table)} blocks of {self.block_size}, too few for {length} tokens: was room made for them?"
        )
        ids = list(work.token_ids)
        assert work.num_new - len(ids) in (0, 1), "at most the last token may be unknown to the host"
        if len(ids) < work.num_new:
            assert work.row in self.last_ids, f"row {work.row} is to go on from a token that it has not sampled yet"
            ids.append(self.last_ids[work.row])
        before = int(self._read(work.row, work.start)[-1]) if work.start else 0
        for position, token in enumerate(ids, start=work.start):
            before = remember(before, int(token))
            self.device_pool[table[position // self.block_size], position % self.block_size] = before

    def _read(self, row: int, count: int) -> np.ndarray:
        """The numbers of a row's first tokens, through its block table."""
        return self.device_pool[self.tables[row]].reshape(-1)[:count]

    def _sample(self, work) -> int:
        numbers = self._read(work.row, work.start + work.num_new).tolist()
        token = next_token(numbers, work.sampling, self.vocab_size)
        self.last_ids[work.row] = token
        return token

    def close(self) -> None:
        pass


class ToyPending:
    """Done at once."""

    def __init__(self, sampled: Sampled):
        self._sampled = sampled

    def wait(self) -> Sampled:
        return self._sampled
