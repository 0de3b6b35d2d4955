"""What the tests of traces share: random traffic recorded beside a witness, and small traces of real engines."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from engine_fixtures import make_engine

from minfer import SamplingParams
from minfer.blocks.prefix import PrefixBlocks
from minfer.policy.fcfs import policy
from minfer.preemption.recompute import Recompute
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.stages import CHUNKED
from minfer.testing.toy import ToyPending, toy_config
from minfer.testing.traffic import Traffic
from minfer.trace import Trace
from minfer.trace.recorder import Recorder
from minfer.types import Plan, Request, Sampled, Sampling, Sequence, Status


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
    preemptions: dict[int, int]  # of each sequence


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
        {seq.seq_id: seq.num_preemptions for seq in live},
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


@functools.cache
def large_trace(num_steps: int = 2000, num_seqs: int = 256) -> Trace:
    """So many steps of so many sequences side by side, from a scheduler whose executor makes every token up."""
    config = toy_config(max_num_seqs=num_seqs, max_num_batched_tokens=1024, max_model_len=2048, block_size=16)
    config.path, config.device, config.dtype, config.num_host_blocks = Path("toy"), torch.device("cpu"), torch.float32, 0
    blocks = PrefixBlocks(6000, 16)
    scheduler = ChunkedScheduler(config, blocks, policy, Recompute())
    executor = SimpleNamespace(launch=lambda plan: ToyPending(Sampled([17] * sum(work.samples for work in plan.work))))
    engine = SimpleNamespace(scheduler=scheduler, executor=executor, blocks=blocks, config=config, stage=CHUNKED, tokenizer=None)
    recorder = Recorder(engine).start()
    rng = random.Random(0)
    count = 0
    for _ in range(num_steps):
        while len(scheduler.live) < num_seqs + 20 and count < 2 * num_seqs:
            prompt = [1] * 64 + [rng.randrange(99) for _ in range(rng.randint(1, 400))]
            params = SamplingParams(max_tokens=rng.randint(num_steps // 4, num_steps // 2), ignore_eos=True)
            request = Request(str(count), tuple(prompt), params)
            limit = len(prompt) + params.max_tokens
            scheduler.add(Sequence(count, request, 0, Sampling(params, 0, (), len(prompt)), prompt, len(prompt), limit))
            count += 1
        plan = scheduler.schedule()
        if plan is None:
            break
        scheduler.commit(plan, executor.launch(plan).wait())
    return recorder.stop()
