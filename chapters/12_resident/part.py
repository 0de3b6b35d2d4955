# Chapter 12, Resident inputs. Edit this file: it is your ResidentInputs for the slot inputs.
#
#   task1, 3 points: Write the message
#   task2, 4 points: Look it up on the device
#   task3, 3 points: Padded, in memory that never moves
#
#   minfer check ch12              what is right so far, and your points
#   minfer check ch12 -k task1     one task only
#   minfer hint ch12 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 8afba21f.

"""Inputs that stay on the device: a row's block table, last token and sampling parameters are sent once, when they are new.

A step sends one message: for each row its number, length and new block if it has one; for each token its id (where the host knows
it), its position and its place in the block tables. The device does the rest: it enters the new blocks, looks up slots, block tables
and sampling parameters by row, and takes the id of a token that the host does not know yet from the row's last sampled one. So the
host may plan a step before the one before it has ended.

    host    build: plan → message               send: one copy
    device  expand: message + rows → batch      feed_back: next ids → rows

From: the scheduler's Plan. To: the runner's Batch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from minfer.inputs.host import to_score
from minfer.inputs.message import NO_BATCH, UNKNOWN, StepMessage
from minfer.inputs.resident import SCORES
from minfer.inputs.rows import Rows
from minfer.inputs.static_batch import with_host_padding
from minfer.types import Batch, Bucket, Plan


class ResidentInputs:
    """One message a step, and `Rows`."""

    def __init__(self, config, block_size: int):
        self.block_size = block_size
        self.max_len = config.max_model_len
        self.device = config.device
        self.recorded = config.device.type == "cuda"
        self.rows = Rows(config, block_size)
        self.fixed = self.message = self._make_message(max(config.max_num_seqs, config.max_num_batched_tokens))
        self.padded: dict[Bucket, Batch] = {}  # views of the fixed message, for recorded steps

    def _make_message(self, num_tokens: int) -> StepMessage:
        return StepMessage(self.rows.num_rows, num_tokens, self.rows.num_rows * self.rows.width, self.device)

    # On the host

    def build(self, plan: Plan) -> Batch:
        """Fills in the message. The batch has the host's side, and views of where the message will be on the device."""
        columns = zip(*plan.work, strict=True)  # the fields of Work, over all works
        seq_ids, rows, starts, query_lens, token_ids, new_blocks, samples, samplings, histories, score_ids = columns
        rows, starts, query_lens = np.array(rows), np.array(starts), np.array(query_lens)
        contexts, ends, sampled = starts + query_lens, np.cumsum(query_lens), np.flatnonzero(samples)
        places, blocks = self.rows.enter(plan, rows, np.array(seq_ids), new_blocks)
        B, T, S = len(rows), int(ends[-1]), len(sampled)
        self.message = self.fixed if self.fixed.num_tokens >= T else self._make_message(T)
        # ch12 task1: fill the message's columns in: of B rows, S samples and the new blocks, and what is known of each of T tokens
        raise NotImplementedError(
            "ch12 task1: fill the message's columns in: of B rows, S samples and the new blocks, and what is known of each of T "
            "tokens"
        )
        view, in_rows = self.message.view(B, T, S), rows[sampled]
        ways = self.rows.ways(in_rows, sampled, samplings, contexts, histories)
        return replace(
            view,
            num_decode=int((query_lens == 1).sum()),
            max_query=int(query_lens.max()),
            max_context=int(contexts.max()),
            query_lens=query_lens.tolist(),
            contexts=contexts.tolist(),
            sampling=replace(view.sampling, **ways),
            num_logprobs=int(self.rows.num_logprobs[in_rows].max(initial=-1)),
            **(to_score(plan.work, ends - query_lens) if any(score_ids) else {}),
        )

    def send(self, batch: Batch | None, bucket: Bucket | None = None) -> Batch:
        """One copy, whatever the step. What is padded lies behind the batch in the message's columns."""
        if batch is None:
            self.fixed.send_blank(bucket)
            batch = NO_BATCH
        elif bucket is None:
            self.message.send(len(batch.token_ids))
            scores = {name: value.to(self.device) for name in SCORES if (value := getattr(batch, name)) is not None}
            return replace(batch, **scores)
        else:
            # ch12 task3: padding behind the batch, up to the bucket; then send as many tokens as the bucket has
            raise NotImplementedError(
                "ch12 task3: padding behind the batch, up to the bucket; then send as many tokens as the bucket has"
            )
        # ch12 task3: a batch of views of the fixed message; in a recorded step the same batch every time
        raise NotImplementedError("ch12 task3: a batch of views of the fixed message; in a recorded step the same batch every time")

    # On the device

    def expand(self, batch: Batch) -> Batch:
        """Enters the new blocks, and looks up by row what the message leaves out."""
        # ch12 task2: write the new blocks into the tables; then ids, positions, slots, tables and sampling, all by row
        raise NotImplementedError(
            "ch12 task2: write the new blocks into the tables; then ids, positions, slots, tables and sampling, all by row"
        )

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        """Each sampled row's last token; those of padding go to row R."""
        # ch12 task2: remember each sampled row's token
        raise NotImplementedError("ch12 task2: remember each sampled row's token")


def _with_unknown(token_ids: tuple[list[int], ...], query_lens: np.ndarray) -> list[int]:
    """All ids in a row, UNKNOWN where a sequence's last one is missing."""
    # ch12 task1: join the lists; where one is a token short of its count, UNKNOWN takes the place
    raise NotImplementedError("ch12 task1: join the lists; where one is a token short of its count, UNKNOWN takes the place")
