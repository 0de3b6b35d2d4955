"""What the device keeps of each running sequence, one row each, and what the host remembers having sent there.

From: `inputs/resident.py` enters each plan. To: the same, whose `expand` looks things up by row.
"""

from __future__ import annotations

import numpy as np
import torch

from minfer.sample.torch import edit_of
from minfer.types import Plan, Work

NOBODY = -1


class Rows:
    """R rows for sequences, and row R, to which everything of the padding goes. M: columns of a block table.

    On the device: block_tables [R + 1, M] int32, last_ids [R + 1] int64, seed and top_k [2, R + 1] int64, and temperature, top_p and
    min_p [3, R + 1] float32.
    """

    def __init__(self, config, block_size: int):
        self.device = config.device
        self.vocab_size = config.model.vocab_size
        self.num_rows, self.width = config.max_num_seqs, -(-config.max_model_len // block_size)
        size = self.num_rows + 1
        self.block_tables = torch.zeros(size, self.width, dtype=torch.int32, device=self.device)
        self.last_ids = torch.zeros(size, dtype=torch.int64, device=self.device)
        self.integers = torch.ones(2, size, dtype=torch.int64, device=self.device)
        self.reals = torch.zeros(3, size, device=self.device)
        self.seq_ids = np.full(size, NOBODY)
        self.num_blocks = np.zeros(size, np.int64)
        self.is_random = np.zeros(size, bool)
        self.is_filtered = np.zeros(size, bool)
        self.edits = np.zeros(size, bool)
        self.num_logprobs = np.full(size, -1)
        self.num_prompt = np.zeros(size, np.int64)

    def enter(self, plan: Plan, rows: np.ndarray, seq_ids: np.ndarray, new_blocks: tuple) -> tuple[list[int], list[int]]:
        """Take in what is new. Rows of new sequences are sent at once.

        Returns:
            The new blocks of the others: their places in the flattened block tables, and the blocks.
        """
        self.seq_ids[plan.freed_rows] = NOBODY
        newcomers = [plan.work[i] for i in np.flatnonzero(self.seq_ids[rows] != seq_ids)]
        places, blocks = [], []
        if newcomers:
            self._begin(newcomers)
        for row, new in zip(rows.tolist(), new_blocks, strict=True):
            if new:
                begin = row * self.width + int(self.num_blocks[row])
                self.num_blocks[row] += len(new)
                places.extend(range(begin, begin + len(new)))
                blocks.extend(new)
        if len(blocks) > self.num_rows:  # more than the message has room for
            self._put(self.block_tables.view(-1), places, blocks)
            return [], []
        return places, blocks

    def ways(self, rows: np.ndarray, sampled: np.ndarray, samplings, contexts: np.ndarray, histories) -> dict:
        """How these rows are sampled, as fields of SamplingTensors; `sampled`: their works' places in the plan."""
        edits = []
        for i in np.flatnonzero(self.edits[rows]).tolist():
            at = sampled[i]
            if edit := edit_of(samplings[at], int(contexts[at]), histories[at]):
                edits.append((i, *edit))
        is_random, is_filtered = bool(self.is_random[rows].any()), bool(self.is_filtered[rows].any())
        return {"all_greedy": not is_random, "any_filter": is_filtered, "edits": edits}

    def _begin(self, works: list[Work]) -> None:
        """Forget what the rows held, and send how the new sequences are sampled."""
        rows = [work.row for work in works]
        self.num_blocks[rows] = 0
        integers, reals = [], []
        for work in works:
            self.seq_ids[work.row] = work.seq_id
            params = work.sampling.params
            k = min(params.top_k, self.vocab_size) if params.top_k > 0 else self.vocab_size
            integers.append((work.sampling.seed, k))
            reals.append((0.0 if params.greedy else params.temperature, params.top_p, params.min_p))
            self.is_random[work.row] = not params.greedy
            self.is_filtered[work.row] = not params.greedy and (k < self.vocab_size or params.top_p < 1 or params.min_p > 0)
            self.edits[work.row] = params.edits_logits
            self.num_prompt[work.row] = work.sampling.num_prompt
            self.num_logprobs[work.row] = -1 if params.logprobs is None else params.logprobs
        index = self._send(rows)
        self.block_tables.index_fill_(0, index, 0)
        self.integers.index_copy_(1, index, self._send(integers).T)
        self.reals.index_copy_(1, index, self._send(reals, torch.float32).T)

    def _put(self, target: torch.Tensor, places: list[int], values: list[int]) -> None:
        target.index_copy_(0, self._send(places), self._send(values, target.dtype))

    def _send(self, values: list, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).to(self.device, non_blocking=True)
