"""What executors on many devices promise: those that come with minfer keep it, and wrong ones, each with one fault, are caught."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import pytest

from minfer.errors import MinferError
from minfer.executor.processes import ProcessesExecutor
from minfer.executor.ray import SILENT, TICK, RayExecutor, RayTeam
from minfer.shard import Shard
from minfer.testing.checking import check
from minfer.testing.promises.executor import PROPERTIES
from minfer.testing.suites import suite_of

PROMISES = {prop.name: prop for prop in PROPERTIES}
KEPT = [(RayExecutor if name in ("placement", "answers", "silence") else ProcessesExecutor, name) for name in PROMISES]


class EveryHead(Shard):
    """A K/V head for each query head: right, and the cache is as large as without sharing."""

    @cached_property
    def kv_heads(self):
        mine, shared = self.whole.num_heads // self.size, self.whole.num_heads // self.whole.num_kv_heads
        return [(self.rank * mine + at) // shared for at in range(mine)]


class DealtLikeCards(Shard):
    """K/V heads one by one to the ranks, while query heads go in runs."""

    @cached_property
    def kv_heads(self):
        heads = super().kv_heads
        return [(self.rank + at * self.size) % self.whole.num_kv_heads for at in range(len(heads))]


class BiasOnEachRank(Shard):
    def cut(self, name):
        return None if name.endswith(("o_proj.bias", "down_proj.bias")) else super().cut(name)


class RowsOfTheOutput(Shard):
    """o_proj is cut where its results are, as the other projections are."""

    def cut(self, name):
        cut = super().cut(name)
        return cut._replace(dim=0) if name.endswith("o_proj.weight") else cut


class WholeParts(Shard):
    """What does not divide is left out."""

    def _share(self, length):
        part = length // self.size
        return self.rank * part, (self.rank + 1) * part


class FirstHeads(Shard):
    """Each rank reads the first rank's query heads."""

    def cut(self, name):
        cut = super().cut(name)
        return cut._replace(ranges=[(0, cut.ranges[0][1] - cut.ranges[0][0])]) if "q_proj" in name and cut.ranges else cut


class OneSum(Shard):
    """Behind attention only."""

    def connect(self, decoder, group):
        super().connect(decoder, group)
        for layer in decoder.layers:
            layer.mlp.down_proj._forward_hooks.clear()


class SumOnRankZero(Shard):
    """The others keep their addends, though they came to the sum."""

    def connect(self, decoder, group):
        super().connect(decoder, KeepsItsOwn(group))


class KeepsItsOwn:
    def __init__(self, group):
        self.group = group

    def all_reduce(self, x):
        own = x.clone()
        total = self.group.all_reduce(x)
        return total if self.group.rank == 0 else own

    def gather(self, x, width):
        return self.group.gather(x, width)


class PaddingIsVocabulary(Shard):
    """The logits keep the columns that fill up the last rank's part."""

    def connect(self, decoder, group):
        whole = self.whole
        padded = replace(whole, vocab_size=-(-whole.vocab_size // self.size) * self.size)
        Shard(padded, self.rank, self.size).connect(decoder, group)


class NobodyMeets(Shard):
    """Rank 0 sums up without the others."""

    def connect(self, decoder, group):
        if self.rank == 0:
            super().connect(decoder, group)


class OneBundle(RayTeam):
    """All ranks on one host."""

    def _start(self, size, on_gpu):
        place = self.ray.util.placement_group
        self.ray.util.placement_group = lambda bundles, **options: place([{next(iter(bundles[0])): len(bundles)}], **options)
        super()._start(size, on_gpu)


class Hopeful(RayTeam):
    """Does not wait for room."""

    def _start(self, size, on_gpu):
        place = self.ray.util.placement_group

        def reserve(*arguments, **options):
            group = place(*arguments, **options)
            group.wait = lambda seconds: True
            return group

        self.ray.util.placement_group = reserve
        super()._start(size, on_gpu)


class ForgetsTheReservation(RayTeam):
    def close(self):
        self.place = None
        super().close()


class AsksRankZero(RayTeam):
    def call(self, ranks, method, *arguments):
        return super().call([0] if len(list(ranks)) == 1 else ranks, method, *arguments)


class TakesAll(RayTeam):
    """One result taken, those of the same call on other ranks are gone."""

    def _sweep(self, before):
        super()._sweep(before + 1)


class Swallows(RayTeam):
    """A failure in a rank is a result without a value."""

    def _fail(self, failure):
        pass


class WaitsForOne(RayTeam):
    """Whoever is not asked for a result may die unnoticed."""

    def _tick(self, waiting_for):
        pass


class NeverAsks(RayTeam):
    """Finds the dead and not the hanging."""

    def _tick(self, waiting_for):
        self._sweep(waiting_for)


class Impatient(RayTeam):
    """Takes a rank that works for long for one that hangs."""

    waited = 0

    def _tick(self, waiting_for):
        super()._tick(waiting_for)
        self.waited += 1
        if self.waited * TICK > 2 * SILENT:
            self._fail(MinferError(f"rank 0 of {len(self.actors)} hangs"))


class BlamesRankZero(RayTeam):
    def _fail(self, failure):
        super()._fail(MinferError(f"rank 0 of {len(self.actors)} has died"))


WRONG = [
    (EveryHead, "heads"),
    (DealtLikeCards, "heads"),
    (DealtLikeCards, "sums"),
    (BiasOnEachRank, "cuts"),
    (BiasOnEachRank, "sums"),
    (RowsOfTheOutput, "cuts"),
    (WholeParts, "cuts"),
    (FirstHeads, "cuts"),
    (FirstHeads, "sums"),
    (OneSum, "sums"),
    (SumOnRankZero, "sums"),
    (PaddingIsVocabulary, "sums"),
    (NobodyMeets, "sums"),
    (OneBundle, "placement"),
    (Hopeful, "placement"),
    (ForgetsTheReservation, "placement"),
    (AsksRankZero, "answers"),
    (TakesAll, "answers"),
    (Swallows, "answers"),
    (WaitsForOne, "silence"),
    (NeverAsks, "silence"),
    (Impatient, "silence"),
    (BlamesRankZero, "silence"),
]


def with_fault(fault: type) -> type:
    """An executor whose Shard, or whose team, is that one."""
    if issubclass(fault, Shard):
        return type("Wrong", (ProcessesExecutor,), {"shard": fault})
    return type("Wrong", (RayExecutor,), {"team_on": staticmethod(fault)})


@pytest.mark.parametrize(("part", "name"), KEPT, ids=PROMISES)
def test_who_promises_keeps_it(part, name):
    result = check(PROMISES[name], part)
    assert result.passed, (result.case, result.error)


@pytest.mark.parametrize(("fault", "name"), WRONG, ids=[f"{fault.__name__}-{name}" for fault, name in WRONG])
def test_a_fault_is_caught(fault, name):
    """Each time, with as many examples as are drawn anyway."""
    result = check(PROMISES[name], with_fault(fault), shrink=False)
    assert result.status == "failed", f"{fault.__name__} has the property {name!r}"
    assert not result.flaky


def test_they_are_asked_for_by_name():
    every = [prop.name for prop in suite_of("executor", promised=True)]
    assert len(set(every)) == len(every)
    assert set(PROMISES).isdisjoint(prop.name for prop in suite_of("executor"))
