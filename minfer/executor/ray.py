"""Tensor parallelism over a Ray cluster: each rank is an actor, on whichever machine has a GPU (or a CPU) free for it.

Ray hands the calls over and says when an actor has died; what a rank does is the same as in a process of ours. Each actor answers
"are you there" in a thread of its own, so that one that hangs is found out as well.

From: `parallel.py`'s calls. To: `rank.py` in the actors, and back.

The model's files must lie under the same path on every machine. A cluster that is made here, since there was none to join, ends with
this process.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch

from minfer.errors import MinferError
from minfer.executor.group import PeerLost
from minfer.executor.parallel import ParallelExecutor
from minfer.executor.rank import Rank
from minfer.shard import Shard

needs = {"ray"}

TICK = 1.0  # seconds between two looks at the actors
SILENT = 7  # ticks without an answer
STARTING = 60  # more of them for the first, since the actor's process has to start
PROBING = 5.0  # seconds for the cluster to answer
GRACE = 4  # looks at the actors for a reason, once one says that it lost another
PLACING = 60.0  # seconds to wait for room in the cluster
STORE = 2**27  # bytes of Ray's object store, in a cluster made here: only plans and results pass
GONE = "the engine is gone with it: its requests have ended; make a new one"


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


class Actor:
    """A rank in an actor."""

    def __init__(self, rank: int, size: int):
        import ray

        self.this = Rank(rank, size, ray.util.get_node_ip_address())
        self.failure: Exception | None = None

    def carry_out(self, method: Callable, *arguments: Any) -> Any:
        """After a failed call every later one fails with the same error, since what it builds on was not done."""
        if self.failure is not None:
            raise self.failure
        try:
            return method(self.this, *arguments)
        except Exception as error:
            self.failure = error
            raise

    def beat(self) -> None:
        """Answered in a thread of its own."""


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
        there = int(ray.cluster_resources().get(kind, 0))
        if there < size:
            raise MinferError(
                f"tensor_parallel_size={size} needs {size} {kind}s, and the Ray cluster has {there}; lower it, or add machines"
            )
        self.place = ray.util.placement_group([{kind: 1}] * size, strategy="PACK")
        if not self.place.wait(PLACING):
            free = ray.available_resources().get(kind, 0)
            raise MinferError(
                f"tensor_parallel_size={size}: of the Ray cluster's {there} {kind}s {free:g} have been free for {PLACING:.0f} s; "
                "lower it, or end other actors"
            )
        # end of ch15 task1
        where = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(self.place)
        shape = {"num_gpus": 1, "num_cpus": 0} if on_gpu else {"num_cpus": 1}
        made = ray.remote(concurrency_groups={"beat": 1, "work": 1})(Actor).options(scheduling_strategy=where, **shape)
        self.actors = [made.remote(rank, size) for rank in range(size)]

    def call(self, ranks: Iterable[int], method: Callable, *arguments: Any) -> int:
        self._check()
        self.numbers += 1
        # ch15 task2: let the actors of these ranks carry it out, in their group "work", and keep the references
        for rank in ranks:
            run = self.actors[rank].carry_out.options(concurrency_group="work")
            self.asked[rank][self.numbers] = run.remote(method, *arguments)
        # end of ch15 task2
        return self.numbers

    def result(self, rank: int, number: int) -> Any:
        wanted = self.asked[rank].pop(number)
        while True:
            self._check()
            # ch15 task2: wait for it for one tick; if it has ended, take the value, look at the other calls, and give it if all is well
            if self.ray.wait([wanted], timeout=TICK)[0]:
                value = self._get(rank, wanted)
                self._sweep(number)
                self._check()
                return value
            # end of ch15 task2
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
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, PeerLost):
                self._fail(PeerLost(f"{cause}; {GONE}"))
            elif isinstance(cause, MinferError):
                self._fail(type(cause)(str(cause)))
            else:
                self._fail(MinferError(f"rank {rank} of {len(self.actors)} failed: {type(cause).__name__}: {cause}; {GONE}\n{error}"))
        except self.ray.exceptions.RayError as error:
            reason = str(error).partition("\n")[0]
            self._fail(MinferError(f"rank {rank} of {len(self.actors)} has died, and {GONE} (Ray says: {reason})"))
        # end of ch15 task2
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
        for rank, actor in enumerate(self.actors):
            if self.beats[rank] is not None and self.ray.wait([self.beats[rank]], timeout=0)[0]:
                self._get(rank, self.beats[rank])
                self.beats[rank], self.silent[rank] = None, 0
            self.beats[rank] = self.beats[rank] or actor.beat.options(concurrency_group="beat").remote()
            self.silent[rank] += 1
            if self.silent[rank] > SILENT:
                what = f"has not answered for {SILENT * TICK:.0f} s: it hangs"
                self._fail(MinferError(f"rank {rank} of {len(self.actors)} {what}, and {GONE}"))
        # end of ch15 task3


def join(address: str | None) -> Any:
    """Ray, connected: as it is where this process has joined a cluster already.

    Raises:
        MinferError: no cluster answers at the address.
    """
    import ray

    if not ray.is_initialized():
        quiet = {"log_to_driver": False, "logging_level": "WARNING", "configure_logging": False}
        found = address or os.environ.get("RAY_ADDRESS")
        if found is None:
            os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # else a token is written into the home folder
            path = {"env_vars": {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}}  # what this process can import, actors can
            ray.init("local", include_dashboard=False, object_store_memory=STORE, runtime_env=path, **quiet)
        else:
            try:
                host, _, port = found.removeprefix("ray://").rpartition(":")
                if host and port.isdecimal():  # Ray itself would try for minutes
                    socket.create_connection((host, int(port)), PROBING).close()
                ray.init(found, **quiet)
            except (OSError, RuntimeError, ValueError) as error:
                raise MinferError(
                    f"no Ray cluster can be joined at {found!r}: {error}; start one with `ray start --head`, or leave the address out"
                ) from error
    import ray.util.scheduling_strategies  # a module of its own, used by its full name

    return ray
