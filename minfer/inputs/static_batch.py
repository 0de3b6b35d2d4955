"""A batch in buffers that never move, filled up by padding: what a recorded step reads.

From: the inputs' Batch, on the host. To: the runner, which records a step on these buffers and replays it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F

from minfer.errors import PartError
from minfer.types import Batch, Bucket, SamplingTensors

INT, WIDE, REAL = torch.int32, torch.int64, torch.float32
# dtype and padding of each column. Padding tokens are written to block 0, which belongs to nobody; padding rows see no token and
# are sampled greedily.
TOKENS = {"token_ids": (WIDE, 0), "positions": (WIDE, 0), "slots": (WIDE, 0), "rope_lens": (WIDE, 1)}
ROWS = {"rows": (WIDE, 0), "context_lens": (INT, 0), "sample_at": (WIDE, 0)}
SAMPLING = {
    "temperature": (REAL, 0), "top_k": (WIDE, 1), "top_p": (REAL, 1), "min_p": (REAL, 0), "seeds": (WIDE, 0), "positions": (WIDE, 0),
}  # fmt: skip


class Unknown:
    """Lengths that a recorded step does not know on the host: how many there are is known, and nothing else."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        raise PartError(
            "a part reads batch.contexts or batch.query_lens, which a recorded step does not know on the host; run this part with "
            "runner=minfer.runner.eager:EagerRunner, or take attention=minfer.attention.triton_decode:attention (decode steps) or "
            "attention=minfer.attention.triton_paged:attention (all steps)"
        )

    def __iter__(self):
        return self[0]


def no_batch() -> Batch:
    """A batch without sequences."""
    none = {name: torch.empty(0, dtype=dtype) for name, (dtype, _) in (TOKENS | ROWS).items()}
    sampling = SamplingTensors(**{name: torch.empty(0, dtype=dtype) for name, (dtype, _) in SAMPLING.items()}, all_greedy=True,
                               any_filter=False, edits=[])  # fmt: skip
    return Batch(
        **none, query_start=torch.zeros(1, dtype=INT), block_tables=torch.empty(0, 0, dtype=INT), num_decode=0, max_query=0,
        max_context=0, query_lens=[], contexts=[], sampling=sampling,
    )  # fmt: skip


def with_host_padding(batch: Batch, bucket: Bucket, recorded: bool, max_len: int) -> Batch:
    """The host's side of a padded batch: its lengths with those of the padding rows, or unknown in a recorded step."""
    missing = bucket.rows - batch.num_seqs
    is_decode = bucket.tokens is None
    contexts = Unknown(bucket.rows) if recorded else batch.contexts + [0] * missing
    query_lens = Unknown(bucket.rows) if recorded and not is_decode else batch.query_lens + [int(is_decode)] * missing
    return replace(
        batch,
        num_decode=bucket.rows if is_decode else 0 if recorded else batch.num_decode,
        max_query=1 if is_decode else bucket.num_tokens,
        max_context=max_len if recorded else batch.max_context,
        query_lens=query_lens,
        contexts=contexts,
        recorded=recorded,
    )


def ends_of_padding(num_rows: int, num_tokens: int, bucket: Bucket) -> np.ndarray:
    """Where the rows behind a batch's own end: [rows - num_rows]. Those of a decode step have one new token each, others none."""
    return num_tokens + int(bucket.tokens is None) * np.arange(1, bucket.rows - num_rows + 1)


class StaticBatch:
    """Buffers for `max_rows` rows and `max_tokens` tokens."""

    def __init__(self, config, block_size: int, max_rows: int, max_tokens: int):
        self.recorded = config.device.type == "cuda"
        self.max_len = config.max_model_len
        where = {"device": config.device}
        self.tokens = {name: torch.empty(max_tokens, dtype=dtype, **where) for name, (dtype, _) in TOKENS.items()}
        self.rows = {name: torch.empty(max_rows, dtype=dtype, **where) for name, (dtype, _) in ROWS.items()}
        self.sampling = {name: torch.empty(max_rows, dtype=dtype, **where) for name, (dtype, _) in SAMPLING.items()}
        self.query_start = torch.empty(max_rows + 1, dtype=INT, **where)
        self.block_tables = torch.empty(max_rows, -(-config.max_model_len // block_size), dtype=INT, **where)

    def fill(self, batch: Batch, bucket: Bucket) -> Batch:
        """Copy a batch in, and padding behind it up to the bucket → the same as views of the buffers. Nothing earlier remains there."""

        def copy(buffers: dict[str, torch.Tensor], columns: dict, source, size: int) -> dict[str, torch.Tensor]:
            views = {name: buffers[name][:size] for name in columns}
            for name, (_, padding) in columns.items():
                column = getattr(source, name)
                views[name].copy_(F.pad(column, (0, size - len(column)), value=padding), non_blocking=True)
            return views

        views = copy(self.tokens, TOKENS, batch, bucket.num_tokens) | copy(self.rows, ROWS, batch, bucket.rows)
        sampling = copy(self.sampling, SAMPLING, batch.sampling, bucket.rows)
        query_start, block_tables = self.query_start[: bucket.rows + 1], self.block_tables[: bucket.rows]
        behind = torch.from_numpy(ends_of_padding(batch.num_seqs, len(batch.token_ids), bucket)).to(INT)
        query_start.copy_(torch.cat((batch.query_start, behind)), non_blocking=True)
        rows, columns = batch.block_tables.shape
        block_tables.copy_(F.pad(batch.block_tables, (0, block_tables.shape[1] - columns, 0, bucket.rows - rows)), non_blocking=True)
        padded = replace(
            batch, **views, query_start=query_start, block_tables=block_tables, sampling=replace(batch.sampling, **sampling)
        )
        return with_host_padding(padded, bucket, self.recorded, self.max_len)
