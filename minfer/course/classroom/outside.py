"""Objects of the grader that a submitted part works with, as they look from the submission's process: each call asks the grader.

From: `serving.py` makes them. To: the submitted part; the calls go to `remote.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minfer.types import Copy

STATE = ("num_free", "num_total", "block_size", "copies", "_free", "refs")


class Outside(Exception):
    """Something in the grader raised; the grader knows what."""

    def __init__(self, number: int):
        super().__init__("an object that the part was given raised an error")
        self.number = number


def blocks_state(blocks: Any) -> dict[str, Any]:
    """What a `blocks` part shows besides its methods; of the last two, what there is."""
    state = {name: getattr(blocks, name) for name in STATE if hasattr(blocks, name)}
    return {name: value if isinstance(value, int) else list(value) for name, value in state.items()}


class OutsideBlocks:
    """The blocks that a scheduler is given."""

    def __init__(self, ask: Callable[..., Any], state: dict[str, Any]):
        self._ask = ask
        self._take(state)

    def _take(self, state: dict[str, Any]) -> None:
        self.copies = [Copy(*copy) for copy in state.pop("copies")]
        self.__dict__.update(state)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in ("lookup", "match", "allocate", "commit", "free"):
            raise AttributeError(name)

        def call(*args: Any, **named: Any) -> Any:
            result, state = self._ask(f"blocks.{name}", self.copies, *args, *named.values())
            self._take(state)
            return result

        return call


class OutsideScheduler:
    """The scheduler that a loop is given."""

    def __init__(self, ask: Callable[..., Any]):
        self._ask = ask

    def has_work(self) -> bool:
        return self._ask("scheduler.has_work")

    def schedule(self) -> Any:
        return self._ask("scheduler.schedule")

    def commit(self, plan: Any, sampled: Any) -> list:
        return self._ask("scheduler.commit", plan, sampled)


class OutsideExecutor:
    """The executor that a loop is given."""

    def __init__(self, ask: Callable[..., Any]):
        self._ask = ask

    def launch(self, plan: Any) -> OutsidePending:
        return OutsidePending(self._ask, self._ask("executor.launch", plan))


class OutsidePending:
    """A step in flight."""

    def __init__(self, ask: Callable[..., Any], step: Any):
        self._ask, self._step = ask, step

    def wait(self) -> Any:
        return self._ask("pending.wait", self._step)
