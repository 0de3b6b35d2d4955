"""CUDA graphs: a decode step is recorded once and replayed, so that the host launches one graph instead of hundreds of kernels.

A recording repeats the same kernels on the same addresses with the same sizes. So the inputs keep the step's tensors in memory that
never moves, and a batch is filled up with padding rows to the next size that was recorded. Recorded whole: expand, model, head,
sample, feed_back. Where a row needs its logits (penalties, bias, log-probabilities), the recording ends with the logits, and sampling
runs eagerly. Steps with chunks, and batches above the largest size, run eagerly from beginning to end.

On a CPU the same padded batches run without recording, so that the padding is tested everywhere.

From: the inputs' Batch. To: the executor's Pending, as tensors still on the device.
"""

from __future__ import annotations

import logging
import sys
import time
from dataclasses import replace
from typing import NamedTuple

import torch
from rich.console import Console
from rich.progress import track

from minfer.inputs.static_batch import SAMPLING
from minfer.runner.eager import EagerRunner
from minfer.types import Batch, Bucket, StepResult

log = logging.getLogger(__name__)


class Mode(NamedTuple):
    """How the rows of a recorded step are sampled."""

    samples: bool  # False: the logits come out, and are sampled eagerly
    all_greedy: bool
    any_filter: bool


GREEDY = Mode(True, True, False)
RANDOM = Mode(True, False, False)  # what a temperature alone asks for


class Recorded(NamedTuple):
    """A graph, and where it leaves its result: next ids [rows] or logits [rows, V], and the batch that it was made of."""

    graph: torch.cuda.CUDAGraph
    result: torch.Tensor
    batch: Batch


def buckets(max_num_seqs: int) -> list[int]:
    """Numbers of rows to record: 1, 2, 4, then every 8 up to max_num_seqs, and that itself."""
    return sorted({size for size in (1, 2, 4, *range(8, max_num_seqs, 8), max_num_seqs) if size <= max_num_seqs})


class CudaGraphRunner(EagerRunner):
    """Decode batches by replay, everything else as the eager runner does."""

    def __init__(self, model, kv, inputs, sample, config):
        super().__init__(model, kv, inputs, sample, config)
        self.on_gpu = config.device.type == "cuda"
        self.buckets = sorted({min(size, config.max_num_seqs) for size in config.graph_sizes or buckets(config.max_num_seqs)})
        self.modes = (RANDOM, GREEDY) if config.record_random else (GREEDY,)  # to record at start-up
        self.pool = None  # all graphs share their memory: only one runs at a time
        self.stream = torch.cuda.Stream() if self.on_gpu else None  # to record on; one, since each holds a workspace of cuBLAS
        self.recorded: dict[tuple[Bucket, Mode], Recorded] = {}

    def warm_up(self) -> None:
        """Record greedy steps, and random ones where they are asked for; the largest first, so that the others fit into its memory."""
        if not self.on_gpu:
            return
        start, before = time.monotonic(), torch.cuda.memory_reserved()
        console = Console(stderr=True)
        for bucket in track(
            self.all_buckets(), "recording steps", console=console, transient=True, disable=not sys.stderr.isatty()
        ):
            for mode in self.modes:
                self._record(bucket, mode)
        log.info(
            "recorded %d steps as CUDA graphs in %.1f s, %.0f MiB",
            len(self.recorded),
            time.monotonic() - start,
            (torch.cuda.memory_reserved() - before) / 2**20,
        )

    def all_buckets(self) -> list[Bucket]:
        """What is recorded in advance, the largest first."""
        return [Bucket(size) for size in self.buckets[::-1]]

    def bucket_of(self, batch: Batch) -> Bucket | None:
        """The smallest that holds a batch; None where it must run eagerly."""
        # ch08 task1: None for steps with chunks, with unsampled or scored rows, or with more rows than the largest size
        rows = batch.num_seqs
        if batch.num_decode < rows or rows > self.buckets[-1] or len(batch.sample_at) < rows or batch.score_at is not None:
            return None
        return Bucket(next(size for size in self.buckets if size >= rows))
        # end of ch08 task1

    @torch.inference_mode()
    def run(self, batch: Batch) -> StepResult:
        bucket = self.bucket_of(batch)
        if bucket is None:
            return super().run(batch)
        sampling, count = batch.sampling, len(batch.sample_at)
        eager = bool(sampling.edits) or batch.num_logprobs >= 0
        mode = Mode(False, False, False) if eager else Mode(True, sampling.all_greedy, sampling.any_filter)
        result, padded = self._replay(batch, bucket, mode)
        if eager:
            # ch08 task3: result holds logits; sample them as the eager runner does, the real rows only
            return self._sample(result[:count], _first_samples(padded, batch, count))
            # end of ch08 task3
        return StepResult(result[:count])

    def _replay(self, batch: Batch, bucket: Bucket, mode: Mode) -> tuple[torch.Tensor, Batch]:
        if not self.on_gpu:
            return self._step(self.inputs.send(batch, bucket), mode)
        # ch08 task4: take the recording of this size and mode, or make it; send the batch into its memory; replay
        graph, result, padded = self.recorded.get((bucket, mode)) or self._record(bucket, mode)
        self.inputs.send(batch, bucket)
        graph.replay()
        return result, padded
        # end of ch08 task4

    def _step(self, batch: Batch, mode: Mode) -> tuple[torch.Tensor, Batch]:
        """What is recorded: the next ids of a padded batch, or their logits; and the batch with what the device adds to it."""
        sampling = replace(batch.sampling, all_greedy=mode.all_greedy, any_filter=mode.any_filter, edits=[])
        # ch08 task2: expand, model, head; then the logits, or the ids sampled from them and fed back; and the expanded batch
        batch = self.inputs.expand(replace(batch, sampling=sampling))
        hidden = self.model(batch, self.kv)
        logits = self.model.head(hidden if batch.max_query == 1 else hidden[batch.sample_at])  # every row of a decode step is sampled
        if not mode.samples:
            return logits, batch
        next_ids = self.sample(logits, batch)
        self.inputs.feed_back(batch, next_ids)
        return next_ids, batch
        # end of ch08 task2

    @torch.inference_mode()
    def _record(self, bucket: Bucket, mode: Mode) -> Recorded:
        """Run the step once to compile its kernels, then record it; on padding only, so that no sequence moves on by it."""
        batch = self.inputs.send(None, bucket)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._step(batch, mode)
        torch.cuda.current_stream().wait_stream(self.stream)
        # ch08 task4: record the step into a graph of its own, in the memory that all graphs share; keep it with what it gives
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            result, padded = self._step(batch, mode)
        self.pool = self.pool or graph.pool()
        self.recorded[bucket, mode] = Recorded(graph, result, padded)
        return self.recorded[bucket, mode]
        # end of ch08 task4


def _first_samples(padded: Batch, batch: Batch, count: int) -> Batch:
    """A padded batch as eager sampling wants it: the first `count` rows of its sampling tensors, the rest of the real batch."""
    # ch08 task3: the batch, with the first `count` rows of padded.sampling's tensors and of padded.sampled_rows, if it has any
    tensors = {name: getattr(padded.sampling, name)[:count] for name in SAMPLING}
    rows = None if padded.sampled_rows is None else padded.sampled_rows[:count]
    return replace(batch, sampling=replace(batch.sampling, **tensors), sampled_rows=rows)
    # end of ch08 task3
