"""What the tests of traces share: random traffic recorded beside a witness, and small traces of real engines."""

from __future__ import annotations

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from engine_fixtures import make_engine

from minfer import SamplingParams
from minfer.stages import CHUNKED
from minfer.testing.traffic import Traffic
from minfer.trace import Trace
from minfer.trace.recorder import Recorder
from minfer.types import Plan, Status


class Seen(NamedTuple):
    """What a witness saw of the engine right after a plan was made."""

    plan: Plan
    queues: tuple[list[int], list[int], list[int]]
    tables: dict[int, list[int]]
    swapped: dict[int, list[int]]
    computed: dict[int, int]
    num_output: dict[int, int]
    cached: set[int]
    num_free: int
    num_preemptions: int


def witness(plan: Plan, scheduler, seqs) -> Seen:
    """Taken from the scheduler's own queues, and not by way of the recorder."""
    live = [seq for seq in seqs if seq.status is not Status.FINISHED]
    waiting = sorted(scheduler.waiting, key=lambda seq: (seq.rank, seq.seq_id))
    held = sorted(scheduler.held.values(), key=lambda seq: seq.seq_id)
    return Seen(
        plan,
        tuple([seq.seq_id for seq in queue] for queue in (held, waiting, scheduler.running)),
        {seq.seq_id: list(seq.block_table) for seq in live if seq.block_table},
        {seq.seq_id: list(seq.host_blocks) for seq in live if seq.host_blocks},
        {seq.seq_id: seq.num_computed for seq in scheduler.running},
        {seq.seq_id: seq.num_output for seq in live},
        set(getattr(scheduler.blocks, "_by_block", ())),
        scheduler.blocks.num_free,
        scheduler.num_preemptions,
    )


class RecordedTraffic(Traffic):
    """Traffic that is recorded and witnessed from its beginning on."""

    def __init__(self, case):
        super().__init__(case)
        self.seen: list[Seen] = []
        config = self.config
        config.path, config.device, config.dtype = Path("toy"), torch.device("cpu"), torch.float32
        config.num_host_blocks = case["host_blocks"]
        engine = SimpleNamespace(
            scheduler=self.scheduler, executor=self.executor, blocks=self.blocks, config=config, stage=CHUNKED, tokenizer=None
        )
        self.recorder = Recorder(engine).start()

    def check_plan(self, plan: Plan) -> None:
        super().check_plan(plan)
        self.seen.append(witness(plan, self.scheduler, self.seqs))


@functools.cache
def small_trace(scheduler: str = "chunked", **options) -> Trace:
    """Twelve prompts in a pool that is too small for them, so that some give way; a few share their beginning."""
    engine = make_engine(
        "cpu",
        swap={"scheduler": f"minfer.scheduler.{scheduler}:{scheduler.capitalize()}Scheduler"},
        **{"num_kv_blocks": 14, "max_num_seqs": 6, "max_num_batched_tokens": 12, **options},
    )
    recorder = Recorder(engine).start()
    for i in range(12):
        prompt = [7, 8, 9, 10, 11, 12, 13, 14][: 4 + i % 5] + [20 + i] * (i % 4)
        engine.add_request(f"request-{i}", prompt, SamplingParams(temperature=0, max_tokens=6 + 2 * i, ignore_eos=True, n=1 + (i == 3)))
    while engine.has_unfinished():
        engine.step()
    trace = recorder.stop()
    engine.close()
    return trace
