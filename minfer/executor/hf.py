"""The baseline: transformers' own model and its own KV cache, fed by our scheduler.

Everything but the forward pass is ours already, so that the next stage can swap exactly that. Like `generate`, it pads the prompts
of a batch on the left to the longest, and rows whose sequence has ended are computed on until the whole batch has.

From: the loop hands over a Plan. To: the Pending that it waits on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from minfer.errors import PartError
from minfer.executor.local import LocalPending
from minfer.hf_model import load_hf
from minfer.resolve import resolve
from minfer.types import Batch, Plan
from minfer.usage import KVUsage


class HFExecutor:
    """Owns transformers' model, the inputs and the runner."""

    ignores = frozenset({"linear", "norm", "write_kv", "attention", "activation"})  # transformers' model has its own

    def __init__(self, config, stage, block_size: int):
        self.kv_bytes_per_token = config.model.kv_bytes_per_token(config.dtype)
        self.num_blocks = 1 + (config.num_kv_blocks or config.max_num_seqs * -(-config.max_model_len // block_size))
        self.num_host_blocks = 0
        self.model = HFModel(config)
        self.usage = self.model.usage
        self.inputs = resolve("inputs", stage.inputs)(config, block_size)
        sample = resolve("sample", stage.sample)
        self.runner = resolve("runner", stage.runner)(self.model, [], self.inputs, sample, config)
        self.runner.warm_up()

    @torch.inference_mode()
    def launch(self, plan: Plan) -> LocalPending:
        if plan.copies:
            raise PartError(
                "the hf executor keeps transformers' own KV cache, which has no blocks to copy; use the stage 'decoder' or a later one "
                "with this blocks or preemption part"
            )
        self.model.forget(plan.freed_rows)
        return LocalPending(plan, self.runner.run(self.inputs.build(plan)))

    def close(self) -> None:
        self.model = self.inputs = self.runner = None


@dataclass
class Group:
    """Sequences whose prompts were computed together: one of transformers' caches, R rows of C columns."""

    rows: list[int | None]  # our row of each cache row; None once its sequence has ended
    cache: object
    mask: torch.Tensor  # [R, C] int64: 1 where the cache holds a token, 0 where it holds padding
    lens: list[int] = field(default_factory=list)  # tokens of each row


class HFModel:
    """Looks like our decoder to the runner: `model(batch, kv) -> hidden` and `head(hidden) -> logits`."""

    def __init__(self, config):
        self.model = load_hf(config.path, config.dtype, config.device)
        self.head = self.model.get_output_embeddings()
        self.groups: list[Group] = []
        self.usage = KVUsage()

    def forget(self, rows: list[int]) -> None:
        """These rows' sequences are gone. A group lives until its last row has gone."""
        gone = set(rows)
        for group in self.groups:
            group.rows = [None if row in gone else row for row in group.rows]
        self.groups = [group for group in self.groups if any(row is not None for row in group.rows)]

    def __call__(self, batch: Batch, kv) -> torch.Tensor:
        """→ hidden states of the batch's tokens, [T, H]."""
        rows = batch.rows.tolist()
        hidden: list[torch.Tensor | None] = [None] * len(rows)
        index = {row: i for i, row in enumerate(rows)}
        for group in [*self.groups, *self._new_groups(batch, rows)]:
            members = [None if row is None else index.pop(row, None) for row in group.rows]
            if any(member is not None for member in members):
                self._run(group, members, batch, hidden)
        if index:
            raise PartError("the hf executor was asked to go on from K/V that transformers' cache does not hold (a prefix hit?)")
        self.usage.record(
            sum(group.mask.numel() for group in self.groups),
            sum(n for group in self.groups for row, n in zip(group.rows, group.lens, strict=True) if row is not None),
        )
        return torch.cat(hidden)

    def _new_groups(self, batch: Batch, rows: list[int]) -> list[Group]:
        """Whole prompts of one step form one group; a first chunk of a longer prompt goes alone, since its pace differs."""
        from transformers import DynamicCache

        first = [i for i, n in enumerate(batch.query_lens) if batch.contexts[i] == n]
        ends = set(batch.sample_at.tolist())
        last = batch.query_start[1:].tolist()
        whole = [i for i in first if last[i] - 1 in ends]
        groups = [whole, *([i] for i in first if i not in whole)]
        made = [
            Group(
                [rows[i] for i in members],
                DynamicCache(config=self.model.config),
                torch.zeros(len(members), 0, dtype=torch.int64, device=batch.token_ids.device),
                [0] * len(members),
            )
            for members in groups
            if members
        ]
        self.groups += made
        return made

    def _run(self, group: Group, members: list[int | None], batch: Batch, hidden: list) -> None:
        """One forward pass of a group; members[r] is the batch index of cache row r, None where the sequence has ended."""
        width = max(batch.query_lens[i] for i in members if i is not None)
        started = group.mask.shape[1] > 0
        for row, i in zip(group.rows, members, strict=True):
            if row is not None and started and (i is None or batch.query_lens[i] != width):
                raise PartError("the hf executor needs all sequences of a batch to advance together; use scheduler.static with it")
        shape = (len(members), width)
        ids = torch.zeros(shape, dtype=torch.int64, device=batch.token_ids.device)
        positions, mask = torch.zeros_like(ids), torch.zeros_like(ids)
        starts = batch.query_start.tolist()
        for r, i in enumerate(members):
            if i is not None:
                n, start = batch.query_lens[i], starts[i]
                ids[r, width - n :] = batch.token_ids[start : start + n]
                positions[r, width - n :] = batch.positions[start : start + n]
                mask[r, width - n :] = 1
                group.lens[r] = batch.contexts[i]
        group.mask = torch.cat([group.mask, mask], dim=1)
        # The cache by position: its keyword is past_key_values in older versions of transformers and cache in newer ones.
        out = self.model.model(ids, group.mask, positions, group.cache, use_cache=True)
        for r, i in enumerate(members):
            if i is not None:
                hidden[i] = out.last_hidden_state[r, width - batch.query_lens[i] :]
