"""Decode steps as CUDA graphs: hundreds of kernel launches are recorded once and replayed with one call.

A graph replays the same kernels on the same addresses. So every decode batch is copied into static buffers, padded to the next
bucket of rows, and the graph of that bucket is replayed. Padding rows have one token of context in block 0, which belongs to
nobody; their tokens are thrown away. Mixed batches and those beyond the largest bucket run eagerly, as before.

The graph holds expand → model → sample → feed_back. How rows are sampled is part of what was recorded, so a bucket has one graph
for greedy rows, one for random ones and one with filters, each recorded when it is first needed; steps that need more than that
(penalties, bias, log-probabilities) take the logits out of a graph of their own and sample eagerly.

On a CPU the same buffers are used without recording, so that the padding is tested everywhere.

From: the inputs' Batch. To: the executor's Pending, as tensors still on the device.
"""

from __future__ import annotations

import functools
import logging
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import track

from minfer.errors import MinferError
from minfer.runner.eager import EagerRunner
from minfer.runner.static_batch import StaticBatch
from minfer.types import Batch, StepResult

log = logging.getLogger(__name__)


class Mode(NamedTuple):
    """How the rows of a recorded step are sampled."""

    samples: bool  # False: the logits come out, and are sampled eagerly
    all_greedy: bool
    any_filter: bool


GREEDY = Mode(True, True, False)


class Recorded(NamedTuple):
    """A graph, and where it leaves its result: next ids [bucket] or logits [bucket, V]."""

    graph: torch.cuda.CUDAGraph
    result: torch.Tensor

    def replay(self) -> torch.Tensor:
        self.graph.replay()
        return self.result


def buckets(max_num_seqs: int) -> list[int]:
    """Numbers of rows to record: 1, 2, 4, then every 8 up to max_num_seqs, and that itself."""
    return sorted({size for size in (1, 2, 4, *range(8, max_num_seqs, 8), max_num_seqs) if size <= max_num_seqs})


class CudaGraphRunner(EagerRunner):
    """Decode batches by replay, everything else as the eager runner does."""

    def __init__(self, model, kv, inputs, sample, config):
        super().__init__(model, kv, inputs, sample, config)
        self.on_gpu = config.device.type == "cuda"
        self.buckets = sorted(config.graph_sizes or buckets(config.max_num_seqs))
        if self.buckets[0] < 1:
            raise MinferError(
                f"graph_sizes={config.graph_sizes} must be numbers of rows, at least 1; leave it out for the runner's choice"
            )
        self.static = StaticBatch(config, kv[0][0].shape[1] if kv else config.block_size, self.buckets[-1])
        self.pool = None  # all graphs share their memory: only one runs at a time
        self.stream = torch.cuda.Stream() if self.on_gpu else None  # to record on; one, since each holds a workspace of cuBLAS
        self.recorded: dict[tuple[int, Mode], Recorded] = {}

    def warm_up(self) -> None:
        """Record the greedy graphs, the largest first, so that the others fit into its memory."""
        if not self.on_gpu:
            return
        start, before = time.monotonic(), torch.cuda.memory_reserved()
        console = Console(stderr=True)
        for bucket in track(
            self.buckets[::-1], "recording decode steps", console=console, transient=True, disable=not sys.stderr.isatty()
        ):
            self._record(bucket, GREEDY)
        log.info(
            "recorded %d decode steps as CUDA graphs in %.1f s, %.0f MiB: %s rows",
            len(self.buckets),
            time.monotonic() - start,
            (torch.cuda.memory_reserved() - before) / 2**20,
            ", ".join(map(str, self.buckets)),
        )

    @torch.inference_mode()
    def run(self, batch: Batch) -> StepResult:
        rows = batch.num_seqs
        if batch.num_decode < rows or rows > self.buckets[-1] or batch.score_at is not None or len(batch.sample_at) < rows:
            return super().run(batch)
        bucket = next(size for size in self.buckets if size >= rows)
        sampling = batch.sampling
        eager = bool(sampling.edits) or batch.num_logprobs >= 0
        mode = Mode(False, False, False) if eager else Mode(True, sampling.all_greedy, sampling.any_filter)
        replay = self._prepare(bucket, mode)
        self.static.fill(batch, bucket)
        result = replay()[:rows]
        if not eager:
            return StepResult(result.clone())  # the next step writes over the static result
        return self._sample(result, batch)

    def _prepare(self, bucket: int, mode: Mode) -> Callable[[], torch.Tensor]:
        """What runs the step on the rows that are then in the static buffers."""
        if not self.on_gpu:
            return functools.partial(self._step, bucket, mode)
        return (self.recorded.get((bucket, mode)) or self._record(bucket, mode)).replay

    def _step(self, bucket: int, mode: Mode) -> torch.Tensor:
        """What is recorded: the next ids of a bucket of rows, or their logits."""
        batch = self.inputs.expand(self.static.view(bucket, mode.all_greedy, mode.any_filter))
        logits = self.model.head(self.model(batch, self.kv)[batch.sample_at])
        if not mode.samples:
            return logits
        next_ids = self.sample(logits, batch)
        self.inputs.feed_back(batch, next_ids)
        return next_ids

    @torch.inference_mode()
    def _record(self, bucket: int, mode: Mode) -> Recorded:
        """Run the step once to compile its kernels, then record it; on padding rows, so that no sequence moves on by it."""
        self.static.clear()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._step(bucket, mode)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            result = self._step(bucket, mode)
        self.pool = self.pool or graph.pool()
        self.recorded[bucket, mode] = Recorded(graph, result)
        return self.recorded[bucket, mode]
