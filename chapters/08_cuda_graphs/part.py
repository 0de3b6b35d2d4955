# Chapter 8, CUDA graphs. Edit this file: it is your CudaGraphRunner for the slot runner.
#
#   task1, 2 points: Which recording holds a batch
#   task2, 3 points: The step that is recorded
#   task3, 2 points: Rows that need their logits
#   task4, 3 points: Record and replay
#
#   minfer check ch08              what is right so far, and your points
#   minfer check ch08 -k task1     one task only
#   minfer hint ch08 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 0a01556e.

"""CUDA graphs: a decode step is recorded once and replayed, so that the host launches one graph instead of hundreds of kernels.

A recording repeats the same kernels on the same addresses with the same sizes. So the inputs keep the step's tensors in memory that
never moves, and a batch is filled up with padding rows to the next size that was recorded. Recorded whole: expand, model, head,
sample, feed_back. Where a row needs its logits (penalties, bias, log-probabilities), the recording ends with the logits, and sampling
runs eagerly. Steps with chunks, and batches above the largest size, run eagerly from beginning to end.

On a CPU the same padded batches run without recording, so that the padding is tested everywhere.

From: the inputs' Batch. To: the executor's Pending, as tensors still on the device.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

import torch
from rich.console import Console
from rich.progress import track

from minfer.inputs.static_batch import SAMPLING
from minfer.runner.cuda_graph import GREEDY, RANDOM, Mode, Recorded, buckets, log
from minfer.runner.eager import EagerRunner
from minfer.types import Batch, Bucket, StepResult


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
        raise NotImplementedError(
            "ch08 task1: None for steps with chunks, with unsampled or scored rows, or with more rows than the largest size"
        )

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
            raise NotImplementedError("ch08 task3: result holds logits; sample them as the eager runner does, the real rows only")
        return StepResult(result[:count])

    def _replay(self, batch: Batch, bucket: Bucket, mode: Mode) -> tuple[torch.Tensor, Batch]:
        if not self.on_gpu:
            return self._step(self.inputs.send(batch, bucket), mode)
        # ch08 task4: take the recording of this size and mode, or make it; send the batch into its memory; replay
        raise NotImplementedError(
            "ch08 task4: take the recording of this size and mode, or make it; send the batch into its memory; replay"
        )

    def _step(self, batch: Batch, mode: Mode) -> tuple[torch.Tensor, Batch]:
        """What is recorded: the next ids of a padded batch, or their logits; and the batch with what the device adds to it."""
        sampling = replace(batch.sampling, all_greedy=mode.all_greedy, any_filter=mode.any_filter, edits=[])
        # ch08 task2: expand, model, head; then the logits, or the ids sampled from them and fed back; and the expanded batch
        raise NotImplementedError(
            "ch08 task2: expand, model, head; then the logits, or the ids sampled from them and fed back; and the expanded batch"
        )

    @torch.inference_mode()
    def _record(self, bucket: Bucket, mode: Mode) -> Recorded:
        """Run the step once to compile its kernels, then record it; on padding only, so that no sequence moves on by it."""
        batch = self.inputs.send(None, bucket)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self._step(batch, mode)
        torch.cuda.current_stream().wait_stream(self.stream)
        # ch08 task4: record the step into a graph of its own, in the memory that all graphs share; keep it with what it gives
        raise NotImplementedError(
            "ch08 task4: record the step into a graph of its own, in the memory that all graphs share; keep it with what it gives"
        )


def _first_samples(padded: Batch, batch: Batch, count: int) -> Batch:
    """A padded batch as eager sampling wants it: the first `count` rows of its sampling tensors, the rest of the real batch."""
    # ch08 task3: the batch, with the first `count` rows of padded.sampling's tensors and of padded.sampled_rows, if it has any
    raise NotImplementedError(
        "ch08 task3: the batch, with the first `count` rows of padded.sampling's tensors and of padded.sampled_rows, if it has any"
    )
