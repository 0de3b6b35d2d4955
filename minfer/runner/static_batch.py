"""A decode batch in buffers that never move, with padding rows: what a CUDA graph reads."""

from __future__ import annotations

import torch

from minfer.types import Batch, SamplingTensors

# What a padding row holds: one token at position 0, in block 0, which belongs to nobody; sampled greedily.
PADDING = {
    "token_ids": 0, "positions": 0, "slots": 0, "context_lens": 1, "block_tables": 0, "rows": 0, "rope_lens": 1,
    "temperature": 0, "top_k": 1, "top_p": 1, "min_p": 0, "seeds": 0, "sampled_positions": 0,
}  # fmt: skip


class StaticBatch:
    """Buffers for `max_rows` rows; `view` gives the first rows as a Batch."""

    def __init__(self, config, block_size: int, max_rows: int):
        self.on_gpu = config.device.type == "cuda"
        self.max_len = config.max_model_len
        width = -(-config.max_model_len // block_size)
        int32 = {"context_lens", "block_tables"}
        floats = {"temperature", "top_p", "min_p"}
        self.buffers = {
            name: torch.full(
                (max_rows, width) if name == "block_tables" else (max_rows,),
                value,
                dtype=torch.int32 if name in int32 else torch.float32 if name in floats else torch.int64,
                device=config.device,
            )
            for name, value in PADDING.items()
        }
        self.query_start = torch.arange(max_rows + 1, dtype=torch.int32, device=config.device)
        self.sample_at = torch.arange(max_rows, device=config.device)
        self.contexts = [1] * max_rows

    def fill(self, batch: Batch, bucket: int) -> None:
        """Copy a batch of decode rows in, and padding behind it up to `bucket` rows. Nothing of an earlier batch remains there."""
        rows, sampling = batch.num_seqs, batch.sampling
        sources = {
            "token_ids": batch.token_ids, "positions": batch.positions, "slots": batch.slots, "context_lens": batch.context_lens,
            "block_tables": batch.block_tables, "rows": batch.rows, "rope_lens": batch.rope_lens,
            "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p, "min_p": sampling.min_p,
            "seeds": sampling.seeds, "sampled_positions": sampling.positions,
        }  # fmt: skip
        for name, source in sources.items():
            buffer = self.buffers[name]
            buffer[rows:bucket] = PADDING[name]
            if name == "block_tables":
                buffer[:rows, : source.shape[1]] = source
                buffer[:rows, source.shape[1] :] = 0
            else:
                buffer[:rows] = source
        self.contexts[:bucket] = batch.contexts + [1] * (bucket - rows)

    def view(self, bucket: int, all_greedy: bool, any_filter: bool) -> Batch:
        """The first `bucket` rows. On a GPU the host's lists must not be baked into a recorded step: they give the bounds only."""
        buffers = {name: buffer[:bucket] for name, buffer in self.buffers.items()}
        contexts = [self.max_len] * bucket if self.on_gpu else self.contexts[:bucket]
        sampling = SamplingTensors(
            **{name: buffers.pop(name) for name in ("temperature", "top_k", "top_p", "min_p", "seeds")},
            positions=buffers.pop("sampled_positions"),
            all_greedy=all_greedy,
            any_filter=any_filter,
            edits=[],
        )
        return Batch(
            **buffers,
            query_start=self.query_start[: bucket + 1],
            sample_at=self.sample_at[:bucket],
            num_decode=bucket,
            max_query=1,
            max_context=max(contexts),
            query_lens=[1] * bucket,
            contexts=contexts,
            sampling=sampling,
        )
