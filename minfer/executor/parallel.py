"""What the executors on many devices share: the caller's side.

The caller's process has no part of the model. It sends the same calls to every rank and asks rank 0 for what was sampled, so a rank
that dies or hangs takes nothing of the caller with it.

From: the loop hands over a Plan. To: the Pending that it waits on.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

import torch

from minfer.config import EngineConfig
from minfer.executor.rank import Job, Rank
from minfer.executor.shorthand import Writer
from minfer.shard import Shard
from minfer.stages import Stage
from minfer.types import Plan, Sampled


class Team(Protocol):
    """The ranks, wherever they run."""

    def call(self, ranks: Iterable[int], method: Callable, *arguments: Any) -> int:
        """Let these ranks carry out a method of Rank, after what they were given before → the number of the call.

        Raises:
            MinferError: a rank has failed. After that the ranks are gone.
        """
        ...

    def result(self, rank: int, number: int) -> Any:
        """What a rank's call gave. Results of earlier calls that nobody took are dropped. Raises as `call` does."""
        ...

    def close(self) -> None:
        """End all ranks, whatever they are doing. Closing twice is fine."""
        ...


class ParallelExecutor:
    """Runs plans on `config.tensor_parallel_size` ranks, which hold the model together."""

    parallel = True
    shard: type[Shard]  # what a rank holds of the model, and where the ranks' results are added up
    usage = None  # the blocks part knows

    def __init__(self, config: EngineConfig, stage: Stage, block_size: int, team: Team, devices: list[torch.device]):
        size = len(devices)
        self.ranks = range(size)
        self.team = team
        self._close = weakref.finalize(self, team.close)
        self.steps, self.plans = 0, Writer()
        threads = max(1, torch.get_num_threads() // size)
        if config.device.type == "cpu":
            config = replace(config, memory_share=config.memory_share / size)  # they share one memory
        try:
            address = team.result(0, team.call([0], Rank.open_store))
            level = logging.getLogger("minfer").getEffectiveLevel()
            number = team.call(self.ranks, Rank.build, Job(config, stage, block_size, address, devices, threads, level))
            sizes = [team.result(rank, number) for rank in self.ranks]
        except BaseException:
            self._close()
            raise
        self.num_blocks, self.num_host_blocks = sizes[0].num_blocks, sizes[0].num_host_blocks
        self.kv_bytes_per_token = sum(each.kv_bytes_per_token for each in sizes)

    def launch(self, plan: Plan) -> ParallelPending:
        self.steps += 1
        self.team.call(self.ranks, Rank.launch, self.steps, self.plans.write(plan))
        return ParallelPending(self.team, self.steps)

    def ask(self, function: Callable, *arguments: Any) -> list[Any]:
        """What `function(executor, *arguments)` gives in each rank, once the steps launched so far have been launched there.

        For benchmarks and tests: a look at what the ranks hold. Pickle must find the function by its name.
        """
        number = self.team.call(self.ranks, Rank.ask, function, *arguments)
        return [self.team.result(rank, number) for rank in self.ranks]

    def close(self) -> None:
        self._close()


class ParallelPending:
    """A step in flight on all ranks."""

    def __init__(self, team: Team, step: int):
        self.team, self.step = team, step

    def wait(self) -> Sampled:
        return self.team.result(0, self.team.call([0], Rank.wait, self.step))
