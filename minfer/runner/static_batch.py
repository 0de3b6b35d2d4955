"""A decode batch in buffers that never move, with padding rows: what a CUDA graph reads.

From: the inputs' Batch, copied in each step. To: the runner's recorded step.
"""

from __future__ import annotations

import torch

from minfer.errors import PartError
from minfer.types import Batch, SamplingTensors

# What a padding row holds: one token at position 0, in block 0, which belongs to nobody; sampled greedily.
PADDING: dict[torch.dtype, dict[str, int]] = {
    torch.int64: {
        "token_ids": 0, "positions": 0, "slots": 0, "rows": 0, "rope_lens": 1, "top_k": 1, "seeds": 0, "sampled_positions": 0,
    },
    torch.int32: {"context_lens": 1},
    torch.float32: {"temperature": 0, "top_p": 1, "min_p": 0},
}  # fmt: skip
OF_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seeds")


class Unknown:
    """The context lengths of a recorded step, on the host: how many there are is known, and nothing else."""

    def __init__(self, count: int):
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        raise PartError(
            "a part reads batch.contexts, which a recorded decode step does not know on the host; run this part with "
            "runner=minfer.runner.eager:EagerRunner, or take attention=minfer.attention.triton_decode:attention"
        )

    def __iter__(self):
        return self[0]


class StaticBatch:
    """Buffers for `max_rows` rows; `view` gives the first rows as a Batch."""

    def __init__(self, config, block_size: int, max_rows: int):
        self.on_gpu = config.device.type == "cuda"
        self.max_len = config.max_model_len
        where = {"device": config.device}

        def padding() -> dict[str, torch.Tensor]:
            return {
                name: torch.full((max_rows,), value, dtype=dtype, **where)
                for dtype, columns in PADDING.items()
                for name, value in columns.items()
            }

        self.buffers, self.padding = padding(), padding()
        self.block_tables = torch.zeros(max_rows, -(-config.max_model_len // block_size), dtype=torch.int32, **where)
        self.query_start = torch.arange(max_rows + 1, dtype=torch.int32, **where)
        self.sample_at = torch.arange(max_rows, **where)
        self.contexts = [1] * max_rows

    def clear(self) -> None:
        """Padding rows only."""
        for name, buffer in self.buffers.items():
            buffer.copy_(self.padding[name])
        self.block_tables.zero_()
        self.contexts = [1] * len(self.contexts)

    def fill(self, batch: Batch, bucket: int) -> None:
        """Copy a batch of decode rows in, and padding behind it up to `bucket` rows. Nothing of an earlier batch remains there.

        One copy a dtype and two for the block tables, however many columns there are: each launch costs the host time.
        """
        rows = batch.num_seqs
        for columns in PADDING.values():
            targets, sources = [], []
            for name in columns:
                targets += [self.buffers[name][:rows], self.buffers[name][rows:bucket]]
                sources += [_column(batch, name), self.padding[name][: bucket - rows]]
            torch._foreach_copy_(targets, sources)
        self.block_tables[:bucket].zero_()
        self.block_tables[:rows, : batch.block_tables.shape[1]] = batch.block_tables
        self.contexts[:bucket] = batch.contexts + [1] * (bucket - rows)

    def view(self, bucket: int, all_greedy: bool, any_filter: bool) -> Batch:
        """The first `bucket` rows. On a GPU it is recorded, and nothing that the host knows of one batch may be in the recording."""
        buffers = {name: buffer[:bucket] for name, buffer in self.buffers.items()}
        sampling = SamplingTensors(
            **{name: buffers.pop(name) for name in OF_SAMPLING},
            positions=buffers.pop("sampled_positions"),
            all_greedy=all_greedy,
            any_filter=any_filter,
            edits=[],
        )
        return Batch(
            **buffers,
            block_tables=self.block_tables[:bucket],
            query_start=self.query_start[: bucket + 1],
            sample_at=self.sample_at[:bucket],
            num_decode=bucket,
            max_query=1,
            max_context=self.max_len if self.on_gpu else max(self.contexts[:bucket]),
            query_lens=[1] * bucket,
            contexts=Unknown(bucket) if self.on_gpu else self.contexts[:bucket],
            sampling=sampling,
        )


def _column(batch: Batch, name: str) -> torch.Tensor:
    if name == "sampled_positions":
        return batch.sampling.positions
    return getattr(batch.sampling if name in OF_SAMPLING else batch, name)
