# Chapter 15, Many machines. Edit this file: it is your RayExecutor for the slot executor.
#
#   task1, 4 points: A place for every rank
#   task2, 3 points: Ask, and take the answer
#   task3, 3 points: Notice who is silent
#
#   minfer check ch15              what is right so far, and your points
#   minfer check ch15 -k task1     one task only
#   minfer hint ch15 task1         a hint; --more for the next one
#
# A starter of minfer 0.1.0, text 2c86f8a5.

"""Tensor parallelism over a Ray cluster: each rank is an actor, on whichever machine has a GPU (or a CPU) free for it.

Ray hands the calls over and says when an actor has died; what a rank does is the same as in a process of ours. Each actor answers
"are you there" in a thread of its own, so that one that hangs is found out as well.

From: `parallel.py`'s calls. To: `rank.py` in the actors, and back.

The model's files must lie under the same path on every machine. A cluster that is made here, since there was none to join, ends with
this process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from minfer.errors import MinferError
from minfer.executor.group import PeerLost
from minfer.executor.parallel import ParallelExecutor
from minfer.executor.ray import GONE, GRACE, PLACING, SILENT, STARTING, TICK, Actor, join
from minfer.shard import Shard

needs = {"ray"}


class RayExecutor(ParallelExecutor):
    """An actor for each rank."""

    shard = Shard

    def __init__(self, config, stage, block_size: int):
        size, on_gpu = config.tensor_parallel_size, config.device.type == "cuda"
        # An actor sees its own GPU only, as the first.
        devices = [torch.device("cuda", 0) if on_gpu else config.device] * size
        super().__init__(config, stage, block_size, self.team_on(join(config.ray_address), size, on_gpu), devices)

    @staticmethod
    def team_on(ray: Any, size: int, on_gpu: bool) -> RayTeam:
        """The ranks on the cluster that `ray` has joined."""
        return RayTeam(ray, size, on_gpu)


class RayTeam:
    """The actors, and the references to what they were asked."""

    def __init__(self, ray: Any, size: int, on_gpu: bool):
        self.ray = ray
        self.numbers, self.closed = 0, False
        self.failure: MinferError | None = None
        self.asked: list[dict[int, Any]] = [{} for _ in range(size)]  # by rank: number → reference of a call not taken yet
        self.beats: list[Any] = [None] * size  # references of the questions under way
        self.silent = [-STARTING] * size  # ticks since each actor was last heard
        self.actors: list[Any] = []
        self.place = None
        try:
            self._start(size, on_gpu)
        except BaseException:
            self.close()
            raise

    def _start(self, size: int, on_gpu: bool) -> None:
        ray, kind = self.ray, "GPU" if on_gpu else "CPU"
        # ch15 task1: reserve a GPU, or a CPU, for each rank: self.place; a MinferError where there are too few, or too few free in time
        raise NotImplementedError(
            "ch15 task1: reserve a GPU, or a CPU, for each rank: self.place; a MinferError where there are too few, or too few free "
            "in time"
        )
        where = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(self.place)
        shape = {"num_gpus": 1, "num_cpus": 0} if on_gpu else {"num_cpus": 1}
        made = ray.remote(concurrency_groups={"beat": 1, "work": 1})(Actor).options(scheduling_strategy=where, **shape)
        self.actors = [made.remote(rank, size) for rank in range(size)]

    def call(self, ranks: Iterable[int], method: Callable, *arguments: Any) -> int:
        self._check()
        self.numbers += 1
        # ch15 task2: let the actors of these ranks carry it out, in their group "work", and keep the references
        raise NotImplementedError(
            "ch15 task2: let the actors of these ranks carry it out, in their group \"work\", and keep the references"
        )
        return self.numbers

    def result(self, rank: int, number: int) -> Any:
        wanted = self.asked[rank].pop(number)
        while True:
            self._check()
            # ch15 task2: wait for it for one tick; if it has ended, take the value, look at the other calls, and give it if all is well
            raise NotImplementedError(
                "ch15 task2: wait for it for one tick; if it has ended, take the value, look at the other calls, and give it if all "
                "is well"
            )
            self._tick(number)

    def close(self) -> None:
        if not self.closed and self.ray.is_initialized():
            for actor in self.actors:
                self.ray.kill(actor)
            if self.place is not None:
                self.ray.util.remove_placement_group(self.place)
        self.closed = True

    def _check(self) -> None:
        """Raise what has failed, once the actors are gone."""
        if self.failure is None:
            if self.closed:
                raise MinferError("this engine is closed; make a new one")
            return
        for _ in range(GRACE if isinstance(self.failure, PeerLost) and not self.closed else 0):
            self._tick(0)
            time.sleep(TICK / 2)
        self.close()
        raise type(self.failure)(str(self.failure))

    def _get(self, rank: int, reference: Any) -> Any:
        """The value of a call that has ended; None, and the failure is kept, where it failed."""
        # ch15 task2: ray.get, and a failure for each way in which it may raise: an error in the rank, or the actor's death
        raise NotImplementedError(
            "ch15 task2: ray.get, and a failure for each way in which it may raise: an error in the rank, or the actor's death"
        )
        return None

    def _fail(self, failure: MinferError) -> None:
        """Keep it if it is the first, or says more than that some other rank was lost."""
        if self.failure is None or (isinstance(self.failure, PeerLost) and not isinstance(failure, PeerLost)):
            self.failure = failure

    def _sweep(self, before: int) -> None:
        """Look for failures in what has ended, and drop it if it was asked before that call: nobody will take it."""
        for rank, asked in enumerate(self.asked):
            ended = self.ray.wait(list(asked.values()), num_returns=len(asked), timeout=0)[0] if asked else []
            for number in [number for number, reference in asked.items() if reference in ended]:
                self._get(rank, asked[number])
                if number < before:
                    del asked[number]

    def _tick(self, waiting_for: int) -> None:
        """The caller has waited in vain for some time: look for failures, and ask the actors whether they are there."""
        self._sweep(waiting_for)
        # ch15 task3: one beat under way for each actor, in its group "beat"; one that has not answered for SILENT ticks has failed
        raise NotImplementedError(
            "ch15 task3: one beat under way for each actor, in its group \"beat\"; one that has not answered for SILENT ticks has "
            "failed"
        )
