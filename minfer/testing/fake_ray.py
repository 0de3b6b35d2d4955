"""A cluster that is only pretended: the part of Ray that `executor/ray.py` uses, with a clock of its own.

Actors carry out their calls when the clock says so, die and hang when they are told to, and nothing takes real time. Where a call
would never come back in Ray, this one raises Differs.

From: a case of `promises/actors.py`. To: the team under test, as its `ray`; then the property looks at what was asked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from minfer.testing.properties import Differs

SOON = 0.01  # seconds for a call that does nothing
FOREVER = 600.0  # seconds by the cluster's clock


class RayError(Exception):
    """What Ray raises of actors that are gone."""


class RayTaskError(RayError):
    """The actor's own exception, as `cause`."""

    def __init__(self, cause: BaseException):
        super().__init__(str(cause))
        self.cause = cause


class Host(NamedTuple):
    """What a machine has in all, and how much of it others use."""

    has: dict[str, int]
    busy: dict[str, int]


class Group:
    """A placement group: reserved bundles."""

    def __init__(self, ray: FakeRay, bundles: list[dict[str, float]]):
        self.ray, self.bundles, self.removed = ray, bundles, False

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Whether there is room, now or within the time."""
        if self.ray.fits(self.bundles, self.ray.clock):
            return True
        later = max(self.ray.clock, self.ray.frees_at)
        if later - self.ray.clock <= timeout_seconds and self.ray.fits(self.bundles, later):
            self.ray.clock = later
            return True
        self.ray.clock += timeout_seconds
        return False


class Reference:
    """A call: what it gives, once the clock has reached `due`."""

    def __init__(self, actor: FakeActor, due: float, run: Callable[[], Any]):
        self.actor, self.due, self.run = actor, due, run
        self.done, self.value, self.error = False, None, None

    @property
    def ready_at(self) -> float:
        """When it comes back, if it does; a dead actor's call does at its death."""
        works_until = min(self.actor.dies_at, self.actor.hangs_at)
        return self.due if self.due <= works_until else self.actor.dies_at

    def settle(self) -> None:
        """Called when the clock has reached `ready_at`."""
        if self.done:
            return
        self.done = True
        if self.due > self.actor.dies_at:
            self.error = RayError("The actor died unexpectedly before finishing this task.")
            return
        try:
            self.value = self.run()
        except SystemExit:
            self.actor.dies_at = self.due
            self.error = RayError("The actor died: its process ended.")
        except Exception as error:
            self.error = RayTaskError(error)


class FakeActor:
    """A rank's actor. Each concurrency group carries out its calls one after the other."""

    def __init__(self, ray: FakeRay, rank: int, options: dict[str, Any]):
        self.ray, self.rank, self.options = ray, rank, options
        self.dies_at = self.hangs_at = math.inf
        self.killed = False
        self.starts_at = ray.clock + ray.starting
        self.free_at: dict[str | None, float] = {}  # by group
        self.calls: list[tuple[Callable, tuple]] = []
        self.carry_out = Method(self, self._carry_out)
        self.beat = Method(self, lambda: (self.ray.beat_seconds, lambda: None))

    def _carry_out(self, method: Callable, *arguments: Any) -> tuple[float, Callable[[], Any]]:
        self.calls.append((method, arguments))
        return self.ray.seconds_of(self.rank), lambda: method(self.rank, *arguments)


class Method:
    """actor.method, with .options(concurrency_group=...) and .remote(...)."""

    def __init__(self, actor: FakeActor, answer: Callable[..., tuple[float, Callable[[], Any]]], group: str | None = None):
        self.actor, self.answer, self.group = actor, answer, group

    def options(self, concurrency_group: str | None = None) -> Method:
        known = self.actor.ray.groups
        if concurrency_group is not None and concurrency_group not in known:
            raise ValueError(f"the actor has no concurrency group {concurrency_group!r}; it has {sorted(known)}")
        return Method(self.actor, self.answer, concurrency_group)

    def remote(self, *arguments: Any) -> Reference:
        actor, ray = self.actor, self.actor.ray
        seconds, run = self.answer(*arguments)
        due = max(ray.clock, actor.free_at.get(self.group, actor.starts_at)) + seconds
        actor.free_at[self.group] = due
        return Reference(actor, due, run)


class FakeRay:
    """The module `ray`, of a cluster with these hosts. What others use is free from `frees_at` on.

    starting: seconds until an actor's process is there; beat: until an actor says that it is. `seconds`: of a rank's work.
    """

    def __init__(self, hosts: list[Host], frees_at: float = math.inf, starting: float = 0.0, beat: float = SOON):
        self.hosts, self.frees_at, self.starting, self.beat_seconds = hosts, frees_at, starting, beat
        self.seconds: dict[int, float] = {}
        self.clock = 0.0
        self.placements: list[Group] = []
        self.actors: list[FakeActor] = []
        self.groups: dict[str, int] = {}
        self.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
        strategy = SimpleNamespace(PlacementGroupSchedulingStrategy=lambda group: SimpleNamespace(placement_group=group))
        self.util = SimpleNamespace(
            placement_group=self._place, remove_placement_group=self._remove, scheduling_strategies=strategy
        )

    def is_initialized(self) -> bool:
        return True

    def seconds_of(self, rank: int) -> float:
        """How long a rank's work takes."""
        return self.seconds.get(rank, SOON)

    # Resources

    def cluster_resources(self) -> dict[str, float]:
        return dict(sum((Counter(host.has) for host in self.hosts), Counter({"memory": 2**30})))

    def available_resources(self) -> dict[str, float]:
        free = Counter({"memory": 2**30})
        for host in self.hosts:
            free += Counter(self._free(host, self.clock))
        return dict(free)

    def _free(self, host: Host, when: float) -> dict[str, int]:
        return {kind: count - (host.busy.get(kind, 0) if when < self.frees_at else 0) for kind, count in host.has.items()}

    def fits(self, bundles: list[dict[str, float]], when: float) -> bool:
        """Whether each bundle finds one host that has all of it free."""
        left = [Counter(self._free(host, when)) for host in self.hosts]
        for bundle in bundles:
            host = next((free for free in left if all(free[kind] >= count for kind, count in bundle.items())), None)
            if host is None:
                return False
            host.subtract(bundle)
        return True

    def _place(self, bundles: list[dict[str, float]], strategy: str = "PACK") -> Group:
        if strategy == "STRICT_PACK" and len(self.hosts) > 1:
            raise Differs("ranks that may be spread over hosts", "the strategy STRICT_PACK, which asks for one host")
        self.placements.append(Group(self, bundles))
        return self.placements[-1]

    def _remove(self, group: Group) -> None:
        group.removed = True

    # Actors

    def remote(self, concurrency_groups: dict[str, int] | None = None) -> Callable[[type], Any]:
        self.groups = concurrency_groups or {}

        def made(options: dict[str, Any]) -> Any:
            def start(rank: int, size: int) -> FakeActor:
                self.actors.append(FakeActor(self, rank, options))
                return self.actors[-1]

            return SimpleNamespace(options=lambda **options: made(options), remote=start)

        return lambda kind: made({})

    def kill(self, actor: FakeActor) -> None:
        actor.killed = True

    def wait(self, references: list[Reference], num_returns: int = 1, timeout: float | None = None) -> tuple[list, list]:
        if not references or len(set(references)) != len(references) or not 0 < num_returns <= len(references):
            raise ValueError(f"ray.wait takes distinct references, num_returns from 1 to their number; {num_returns} of {references}")
        if self.clock > FOREVER:
            raise Differs(f"an end of the waiting within {FOREVER:.0f} s", "none")
        enough = sorted(each.ready_at for each in references)[num_returns - 1]
        if timeout is None and enough == math.inf:
            raise Differs("a wait with a timeout, since an actor may hang", "ray.wait without one, which never comes back")
        self.clock = max(self.clock, min(enough, math.inf if timeout is None else self.clock + timeout))
        ready = [each for each in references if each.ready_at <= self.clock][:num_returns]
        for each in ready:
            each.settle()
        return ready, [each for each in references if each not in ready]

    def get(self, reference: Reference, timeout: float | None = None) -> Any:
        if reference.ready_at == math.inf:
            raise Differs("ray.get of calls that have ended", "ray.get of one that never ends: the actor hangs")
        self.clock = max(self.clock, reference.ready_at)
        reference.settle()
        if reference.error is not None:
            raise reference.error
        return reference.value
