"""What the host sends to the device for a step: named columns in one block of memory, so that one copy carries them all.

On a GPU the host's side is pinned, and the copy runs beside the host. There are two such blocks by turns: the host fills one while
the device may still be reading the other. A third one is for padding only: a step may be recorded while a message is being written.
On the device there is one block, at an address that never changes, so that a recorded step can read it.

From: `inputs/resident.py` fills the columns in. To: its `expand` reads them on the device.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from minfer.inputs.static_batch import ends_of_padding, no_batch
from minfer.types import Batch, Bucket

ALIGN = 16  # bytes: every column begins at a multiple
BLANK = 2  # the block on the host that holds nothing but padding
UNKNOWN = -1  # as a token's id: the device knows it
LONG, INT = np.dtype("i8"), np.dtype("i4")
TOKEN = np.dtype([("id", LONG), ("row", LONG), ("position", LONG), ("rope_len", LONG), ("place", LONG), ("offset", LONG)])


class Message:
    """Columns of fixed lengths, in this order. The last one may be sent in part."""

    def __init__(self, columns: dict[str, tuple[np.dtype, int]], device: torch.device):
        self.spans, end = {}, 0
        for name, (dtype, length) in columns.items():
            self.spans[name] = (end, end + dtype.itemsize * length)
            end += -(-dtype.itemsize * length // ALIGN) * ALIGN
        on_gpu = device.type == "cuda"
        self.on_device = torch.zeros(end, dtype=torch.uint8, device=device)
        self.on_host = [torch.zeros(end, dtype=torch.uint8, pin_memory=on_gpu) for _ in range(3)]
        self.was_sent = [torch.cuda.Event() for _ in range(3)] if on_gpu else None
        self.columns = [
            {name: block.numpy()[slice(*self.spans[name])].view(dtype) for name, (dtype, _) in columns.items()}
            for block in self.on_host
        ]
        self.turn = 0

    def begin(self) -> dict[str, np.ndarray]:
        """The columns to fill in. They hold what they held two messages ago."""
        self.turn ^= 1
        if self.was_sent is not None:
            self.was_sent[self.turn].synchronize()
        return self.columns[self.turn]

    def send_until(self, name: str, length: int, block: int | None = None) -> None:
        """Everything before the column, and its first `length` items; of the message just written, or of another block."""
        block = self.turn if block is None else block
        end = self.spans[name][0] + self.columns[0][name].itemsize * length
        self.on_device[:end].copy_(self.on_host[block][:end], non_blocking=True)
        if self.was_sent is not None:
            self.was_sent[block].record()

    def there(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The column on the device."""
        return self.on_device[slice(*self.spans[name])].view(dtype)


class StepMessage(Message):
    """A step of at most `num_rows` rows and `num_tokens` tokens. Padding goes to row `num_rows`, which is nobody's.

    The columns of B rows: rows, context_lens, query_start. Of S sampled tokens: sample_at, sampled_rows, sampled_positions. Of new
    blocks: new_places in the flattened block tables, new_blocks. Of T tokens: TOKEN, where `place` and `offset` say where in the
    flattened block tables its block stands, and where in the block its K/V go.

    Args:
        nowhere: a place in the flattened block tables of row `num_rows`.
    """

    def __init__(self, num_rows: int, num_tokens: int, nowhere: int, device: torch.device):
        long = ("rows", "sample_at", "sampled_rows", "sampled_positions", "new_places")
        columns = {name: (LONG, num_rows) for name in long} | {name: (INT, num_rows) for name in ("new_blocks", "context_lens")}
        super().__init__({**columns, "query_start": (INT, num_rows + 1), "tokens": (TOKEN, num_tokens)}, device)
        self.num_rows, self.num_tokens, self.nowhere = num_rows, num_tokens, nowhere
        self.at = {name: self.there(name, torch.int64) for name in long}
        self.at |= {name: self.there(name, torch.int32) for name in ("new_blocks", "context_lens", "query_start")}
        self.tokens = self.there("tokens", torch.int64).view(num_tokens, len(TOKEN))

    def send(self, num_tokens: int) -> None:
        self.send_until("tokens", num_tokens)

    def send_blank(self, bucket: Bucket) -> None:
        """Padding only. What has been written of the next message stays."""
        column = self.columns[BLANK]
        column["new_places"][:], column["new_blocks"][:], column["query_start"][0] = self.nowhere, 0, 0
        self.pad(NO_BATCH, bucket, BLANK)
        self.send_until("tokens", bucket.num_tokens, BLANK)

    def view(self, num_rows: int, num_tokens: int, num_samples: int) -> Batch:
        """A batch whose tensors are the message's columns on the device."""
        at, none = self.at, NO_BATCH
        return replace(
            none,
            token_ids=self.tokens[:num_tokens, 0],
            rows=at["rows"][:num_rows],
            context_lens=at["context_lens"][:num_rows],
            query_start=at["query_start"][: num_rows + 1],
            sample_at=at["sample_at"][:num_samples],
            sampled_rows=at["sampled_rows"][:num_samples],
            sampling=replace(none.sampling, positions=at["sampled_positions"][:num_samples]),
        )

    def pad(self, batch: Batch, bucket: Bucket, block: int | None = None) -> None:
        """Padding behind the batch, up to the bucket; in the message just written, or in another block."""
        column = self.columns[self.turn if block is None else block]
        rows, samples, tokens = slice(batch.num_seqs, bucket.rows), slice(len(batch.sample_at), bucket.rows), len(batch.token_ids)
        column["rows"][rows] = self.num_rows
        column["context_lens"][rows] = 0
        column["query_start"][batch.num_seqs + 1 : bucket.rows + 1] = ends_of_padding(batch.num_seqs, tokens, bucket)
        column["sample_at"][samples] = 0
        column["sampled_rows"][samples] = self.num_rows
        column["sampled_positions"][samples] = 0
        column["tokens"][tokens : bucket.num_tokens] = (0, self.num_rows, 0, 1, self.nowhere, 0)


NO_BATCH = no_batch()
