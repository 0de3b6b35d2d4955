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
from minfer.inputs.rows import Rows
from minfer.inputs.static_batch import with_host_padding
from minfer.types import Batch, Bucket, Plan

SCORES = ("score_at", "score_ids")


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
        column = self.message.begin()
        column["rows"][:B] = rows
        column["context_lens"][:B] = contexts
        column["query_start"][0] = 0
        column["query_start"][1 : B + 1] = ends
        column["sample_at"][:S] = ends[sampled] - 1
        column["sampled_rows"][:S] = rows[sampled]
        column["sampled_positions"][:S] = contexts[sampled]
        column["new_places"][: len(places)], column["new_places"][len(places) :] = places, self.message.nowhere
        column["new_blocks"][: len(places)], column["new_blocks"][len(places) :] = blocks, 0

        token = column["tokens"][:T]
        owner = slice(None) if T == B else np.repeat(np.arange(B), query_lens)  # which sequence each token belongs to
        position = np.arange(T) + (contexts - ends)[owner]
        token["id"] = _with_unknown(token_ids, query_lens)
        token["row"] = rows[owner]
        token["position"] = position
        token["rope_len"] = np.maximum(position + 1, self.rows.num_prompt[rows][owner])
        token["place"] = token["row"] * self.rows.width + position // self.block_size
        token["offset"] = position % self.block_size
        # end of ch12 task1
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
            self.message.pad(batch, bucket)
            self.message.send(bucket.num_tokens)
            # end of ch12 task3
        # ch12 task3: a batch of views of the fixed message; in a recorded step the same batch every time
        if self.recorded and bucket in self.padded:
            return self.padded[bucket]
        view = self.fixed.view(bucket.rows, bucket.num_tokens, bucket.rows)
        names = ("token_ids", "query_start", "context_lens", "sample_at", "rows", "sampled_rows")
        columns = {name: getattr(view, name) for name in names}
        padded = replace(batch, **columns, sampling=replace(batch.sampling, positions=view.sampling.positions))
        self.padded[bucket] = with_host_padding(padded, bucket, self.recorded, self.max_len)
        return self.padded[bucket]
        # end of ch12 task3

    # On the device

    def expand(self, batch: Batch) -> Batch:
        """Enters the new blocks, and looks up by row what the message leaves out."""
        # ch12 task2: write the new blocks into the tables; then ids, positions, slots, tables and sampling, all by row
        rows, message = self.rows, self.message
        flat = rows.block_tables.view(-1)
        flat.index_copy_(0, message.at["new_places"], message.at["new_blocks"])
        ids, token_rows, positions, rope_lens, places, offsets = message.tokens[: len(batch.token_ids)].unbind(1)
        seeds, top_k = rows.integers.index_select(1, batch.sampled_rows)
        temperature, top_p, min_p = rows.reals.index_select(1, batch.sampled_rows)
        return replace(
            batch,
            token_ids=torch.where(ids == UNKNOWN, rows.last_ids.index_select(0, token_rows), ids),
            positions=positions,
            rope_lens=rope_lens,
            slots=torch.add(offsets, flat.index_select(0, places).long(), alpha=self.block_size),
            block_tables=rows.block_tables.index_select(0, batch.rows),
            sampling=replace(batch.sampling, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seeds=seeds),
        )
        # end of ch12 task2

    def feed_back(self, batch: Batch, next_ids: torch.Tensor) -> None:
        """Each sampled row's last token; those of padding go to row R."""
        # ch12 task2: remember each sampled row's token
        self.rows.last_ids.index_copy_(0, batch.sampled_rows, next_ids)
        # end of ch12 task2


def _with_unknown(token_ids: tuple[list[int], ...], query_lens: np.ndarray) -> list[int]:
    """All ids in a row, UNKNOWN where a sequence's last one is missing."""
    # ch12 task1: join the lists; where one is a token short of its count, UNKNOWN takes the place
    if len(query_lens) == query_lens.sum():
        return [known[0] if known else UNKNOWN for known in token_ids]
    ids: list[int] = []
    for known, count in zip(token_ids, query_lens.tolist(), strict=True):
        ids += known if len(known) == count else [*known, UNKNOWN]
    return ids
    # end of ch12 task1
