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

needs = {"ray"}

TICK = 1.0  # seconds between two looks at the actors
SILENT = 7  # ticks without an answer
GRACE = 4  # looks at the actors for a reason, once one says that it lost another
PROBING = 5.0  # seconds for the cluster to answer
PLACING = 60.0  # seconds to wait for room in the cluster
STORE = 2**27  # bytes of Ray's object store, in a cluster made here: only plans and results pass
GONE = "the engine is gone with it: its requests have ended; make a new one"


class RayExecutor(ParallelExecutor):
    """An actor for each rank."""

    def __init__(self, config, stage, block_size: int):
        size, on_gpu = config.tensor_parallel_size, config.device.type == "cuda"
        # An actor sees its own GPU only, as the first.
        devices = [torch.device("cuda", 0) if on_gpu else config.device] * size
        super().__init__(config, stage, block_size, RayTeam(size, on_gpu, config.ray_address), devices)


class Actor:
    """A rank in an actor. After a failed call nothing more is carried out: every later call gives the same error."""

    def __init__(self, rank: int, size: int):
        import ray

        self.this = Rank(rank, size, ray.util.get_node_ip_address())
        self.error: Exception | None = None

    def carry_out(self, method: Callable, *arguments: Any) -> Any:
        if self.error is not None:
            raise self.error
        try:
            return method(self.this, *arguments)
        except Exception as error:
            self.error = error
            raise

    def beat(self) -> None:
        """Answered in a thread of its own."""


class RayTeam:
    """The actors, and the references to what they were asked."""

    def __init__(self, size: int, on_gpu: bool, address: str | None):
        self.ray = join(address)
        self.numbers, self.closed = 0, False
        self.failure: MinferError | None = None
        self.asked: list[dict[int, Any]] = [{} for _ in range(size)]  # by rank: number → reference of a result not taken yet
        self.launches: list[list[Any]] = [[] for _ in range(size)]  # by rank: references of launches not known to have ended
        self.beats: list[Any] = [None] * size  # references of the questions under way
        self.silent = [0] * size
        self.actors: list[Any] = []
        self.place = None
        try:
            self._start(size, on_gpu)
        except BaseException:
            self.close()
            raise

    def _start(self, size: int, on_gpu: bool) -> None:
        ray, kind = self.ray, "GPU" if on_gpu else "CPU"
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
        where = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(self.place)
        shape = {"num_gpus": 1, "num_cpus": 0} if on_gpu else {"num_cpus": 1}
        made = ray.remote(concurrency_groups={"beat": 1, "work": 1})(Actor).options(scheduling_strategy=where, **shape)
        self.actors = [made.remote(rank, size) for rank in range(size)]

    def call(self, ranks: Iterable[int], method: Callable, *arguments: Any) -> int:
        self._check()
        self.numbers += 1
        for rank in ranks:
            run = self.actors[rank].carry_out.options(concurrency_group="work")
            reference = run.remote(method, *arguments)
            if method is Rank.launch:
                self.launches[rank].append(reference)
            else:
                self.asked[rank][self.numbers] = reference
        return self.numbers

    def result(self, rank: int, number: int) -> Any:
        wanted = self.asked[rank][number]
        self.asked[rank] = {later: each for later, each in self.asked[rank].items() if later > number}
        while True:
            self._check()
            if self.ray.wait([wanted], timeout=TICK)[0]:
                value = self._get(rank, wanted)
                self._sweep()
                self._check()
                return value
            self._tick()

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
            self._tick()
            time.sleep(TICK / 2)
        self.close()
        raise type(self.failure)(str(self.failure))

    def _get(self, rank: int, reference: Any) -> Any:
        """The value of a call that has ended; None, and the failure is kept, where it failed."""
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
        return None

    def _fail(self, failure: MinferError) -> None:
        """Keep it if it is the first, or says more than that some other rank was lost."""
        if self.failure is None or (isinstance(self.failure, PeerLost) and not isinstance(failure, PeerLost)):
            self.failure = failure

    def _sweep(self) -> None:
        """Look for failures in the launches that have ended, and forget these."""
        for rank, launches in enumerate(self.launches):
            ended, self.launches[rank] = self.ray.wait(launches, num_returns=len(launches), timeout=0) if launches else ([], [])
            for reference in ended:
                self._get(rank, reference)

    def _tick(self) -> None:
        """The caller has waited in vain for some time: look for failures, and ask the actors whether they are there."""
        self._sweep()
        for rank, actor in enumerate(self.actors):
            asked = list(self.asked[rank].values())
            for reference in self.ray.wait(asked, num_returns=len(asked), timeout=0)[0] if asked else ():
                self._get(rank, reference)
            if self.beats[rank] is not None and self.ray.wait([self.beats[rank]], timeout=0)[0]:
                self._get(rank, self.beats[rank])
                self.beats[rank], self.silent[rank] = None, 0
            self.beats[rank] = self.beats[rank] or actor.beat.options(concurrency_group="beat").remote()
            self.silent[rank] += 1
            if self.silent[rank] > SILENT:
                what = f"has not answered for {SILENT * TICK:.0f} s: it hangs"
                self._fail(MinferError(f"rank {rank} of {len(self.actors)} {what}, and {GONE}"))


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
