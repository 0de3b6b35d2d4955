"""Inputs built on the host: every step, all of the batch's tensors are made from the plan and sent to the device.

From: the scheduler's Plan. To: the runner's Batch. The only state kept is each row's block table, since a plan names new blocks only.
"""

from __future__ import annotations

import numpy as np
import torch

from minfer.sample.torch import sampling_tensors
from minfer.types import Batch, Plan, Work


class HostInputs:
    """One block table a row, on the host."""

    def __init__(self, config, block_size: int):
        self.device = config.device
        self.vocab_size = config.model.vocab_size
        self.block_size = block_size
        self.tables = np.zeros((config.max_num_seqs, -(-config.max_model_len // block_size)), np.int32)
        self.num_blocks = np.zeros(config.max_num_seqs, np.int32)

    def build(self, plan: Plan) -> Batch:
        self.num_blocks[plan.freed_rows] = 0
        for work in plan.work:
            if work.new_blocks:
                first = self.num_blocks[work.row]
                self.num_blocks[work.row] = first + len(work.new_blocks)
                self.tables[work.row, first : self.num_blocks[work.row]] = work.new_blocks

        works = plan.work
        rows = np.array([work.row for work in works])
        starts = np.array([work.start for work in works])
        query_lens = np.array([work.num_new for work in works])
        contexts = starts + query_lens
        query_start = np.concatenate([[0], np.cumsum(query_lens)])
        owner = np.repeat(np.arange(len(works)), query_lens)  # which sequence each token belongs to
        positions = np.arange(query_start[-1]) - query_start[owner] + starts[owner]
        blocks = self.tables[rows[owner], positions // self.block_size].astype(np.int64)
        num_prompt = np.array([work.sampling.num_prompt for work in works])
        sampled = [i for i, work in enumerate(works) if work.samples]

        return Batch(
            token_ids=self._send([token for work in works for token in work.token_ids]),
            positions=self._send(positions),
            slots=self._send(blocks * self.block_size + positions % self.block_size),
            query_start=self._send(query_start, torch.int32),
            context_lens=self._send(contexts, torch.int32),
            block_tables=self._send(self._tables_of(rows, contexts), torch.int32),
            sample_at=self._send(query_start[1:][sampled] - 1),
            rows=self._send(rows),
            rope_lens=self._send(np.maximum(positions + 1, num_prompt[owner])),
            num_decode=int((query_lens == 1).sum()),
            max_query=int(query_lens.max()),
            max_context=int(contexts.max()),
            query_lens=query_lens.tolist(),
            contexts=contexts.tolist(),
            sampling=sampling_tensors(
                [(works[i].sampling, int(contexts[i]), works[i].history) for i in sampled], self.vocab_size, self.device
            ),
            num_logprobs=max((_asked(works[i].sampling.params.logprobs) for i in sampled), default=-1),
            **self._to_score(works, query_start),
        )

    def expand(self, batch: Batch) -> Batch:
        """Nothing is left to do on the device: the host has sent everything."""
        return batch

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        """The host learns the tokens and sends them with the next plan."""

    def _tables_of(self, rows: np.ndarray, contexts: np.ndarray) -> np.ndarray:
        """The rows' block tables [B, M], as wide as the longest needs, zero (the padding block) beyond each one's own."""
        width = -(-int(contexts.max()) // self.block_size)
        used = -(-contexts // self.block_size)
        return np.where(np.arange(width) < used[:, None], self.tables[rows, :width], 0)

    def _to_score(self, works: list[Work], query_start: np.ndarray) -> dict:
        """Tokens whose successors' log-probabilities are wanted, and those successors."""
        scored = [(start, work) for start, work in zip(query_start[:-1], works, strict=True) if work.score_ids]
        if not scored:
            return {}
        return {
            "score_at": self._send(np.concatenate([start + np.arange(len(work.score_ids)) for start, work in scored])),
            "score_ids": self._send([token for _, work in scored for token in work.score_ids]),
            "num_prompt_logprobs": max(work.sampling.params.prompt_logprobs for _, work in scored),
        }

    def _send(self, values, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.as_tensor(np.asarray(values), dtype=dtype).to(self.device, non_blocking=True)


def _asked(logprobs: int | None) -> int:
    return -1 if logprobs is None else logprobs
