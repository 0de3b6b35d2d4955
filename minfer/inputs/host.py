"""Inputs built on the host: every step, all of the batch's tensors are made from the plan and sent to the device, one by one.

From: the scheduler's Plan. To: the runner's Batch. The only state kept is each row's block table, since a plan names new blocks only.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace

import numpy as np
import torch

from minfer.errors import PartError
from minfer.inputs.static_batch import StaticBatch, no_batch
from minfer.sample.torch import sampling_tensors
from minfer.types import Batch, Bucket, Plan, Work


class HostInputs:
    """One block table a row, on the host."""

    def __init__(self, config, block_size: int):
        self.device = config.device
        self.vocab_size = config.model.vocab_size
        self.block_size = block_size
        self.tables = np.zeros((config.max_num_seqs, -(-config.max_model_len // block_size)), np.int32)
        self.num_blocks = np.zeros(config.max_num_seqs, np.int32)
        most_tokens = max(config.max_num_seqs, config.max_num_batched_tokens)
        self.static = StaticBatch(config, block_size, config.max_num_seqs, most_tokens)

    def build(self, plan: Plan) -> Batch:
        self.num_blocks[plan.freed_rows] = 0
        for work in plan.work:
            if work.new_blocks:
                first = self.num_blocks[work.row]
                self.num_blocks[work.row] = first + len(work.new_blocks)
                self.tables[work.row, first : self.num_blocks[work.row]] = work.new_blocks

        works = plan.work
        token_ids = [token for work in works for token in work.token_ids]
        rows = np.array([work.row for work in works])
        starts = np.array([work.start for work in works])
        query_lens = np.array([work.num_new for work in works])
        if len(token_ids) < query_lens.sum():
            raise PartError(
                "a plan names tokens that the host does not know yet, and inputs.host sends every token; a loop that runs ahead "
                "of the device needs inputs=minfer.inputs.resident:ResidentInputs"
            )
        contexts = starts + query_lens
        query_start = np.concatenate([[0], np.cumsum(query_lens)])
        owner = np.repeat(np.arange(len(works)), query_lens)  # which sequence each token belongs to
        positions = np.arange(query_start[-1]) - query_start[owner] + starts[owner]
        blocks = self.tables[rows[owner], positions // self.block_size].astype(np.int64)
        num_prompt = np.array([work.sampling.num_prompt for work in works])
        sampled = [i for i, work in enumerate(works) if work.samples]

        return Batch(
            token_ids=tensor(token_ids),
            positions=tensor(positions),
            slots=tensor(blocks * self.block_size + positions % self.block_size),
            query_start=tensor(query_start, torch.int32),
            context_lens=tensor(contexts, torch.int32),
            block_tables=tensor(self._tables_of(rows, contexts), torch.int32),
            sample_at=tensor(query_start[1:][sampled] - 1),
            rows=tensor(rows),
            rope_lens=tensor(np.maximum(positions + 1, num_prompt[owner])),
            num_decode=int((query_lens == 1).sum()),
            max_query=int(query_lens.max()),
            max_context=int(contexts.max()),
            query_lens=query_lens.tolist(),
            contexts=contexts.tolist(),
            sampling=sampling_tensors(
                [(works[i].sampling, int(contexts[i]), works[i].history) for i in sampled], self.vocab_size, "cpu"
            ),
            num_logprobs=max((_asked(works[i].sampling.params.logprobs) for i in sampled), default=-1),
            **to_score(works, query_start[:-1]),
        )

    def send(self, batch: Batch | None, bucket: Bucket | None = None) -> Batch:
        """Each tensor by itself, into the static buffers where there is a bucket."""
        batch = no_batch() if batch is None else batch
        return to_device(batch, self.device) if bucket is None else self.static.fill(batch, bucket)

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


def to_score(works: list[Work], first: np.ndarray) -> dict:
    """Tokens whose successors' log-probabilities are wanted, and those successors. first [B]: index of each work's first token."""
    scored = [(start, work) for start, work in zip(first, works, strict=True) if work.score_ids]
    if not scored:
        return {}
    return {
        "score_at": tensor(np.concatenate([start + np.arange(len(work.score_ids)) for start, work in scored])),
        "score_ids": tensor([token for _, work in scored for token in work.score_ids]),
        "num_prompt_logprobs": max(work.sampling.params.prompt_logprobs for _, work in scored),
    }


def to_device(record, device: torch.device):
    """A dataclass with its tensors, and those of a dataclass in it, on the device."""
    moved = {}
    for name in record.__slots__:
        value = getattr(record, name)
        if isinstance(value, torch.Tensor):
            moved[name] = value.to(device, non_blocking=True)
        elif is_dataclass(value):
            moved[name] = to_device(value, device)
    return replace(record, **moved)


def tensor(values, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values), dtype=dtype)


def _asked(logprobs: int | None) -> int:
    return -1 if logprobs is None else logprobs
