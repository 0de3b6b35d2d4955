"""What continuous and chunked schedulers and the prefix cache promise: those that do keep it, and wrong ones are caught.

The wrong parts each have one fault that the slot's own suite may let pass, because other parts of the slot behave so by design.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from minfer.blocks.paged import PagedBlocks
from minfer.blocks.prefix import PrefixBlocks
from minfer.norm.torch import add_rms_norm
from minfer.scheduler.base import BaseScheduler
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.scheduler.continuous import ContinuousScheduler
from minfer.scheduler.static import StaticScheduler
from minfer.testing.checking import check
from minfer.testing.promises import blocks as block_promises
from minfer.testing.promises import norm as norm_promises
from minfer.testing.promises import scheduler as scheduler_promises
from minfer.testing.suites import suite_of

MODULES = {"scheduler": scheduler_promises, "blocks": block_promises, "norm": norm_promises}
PROMISES = {prop.name: prop for module in MODULES.values() for prop in module.PROPERTIES}
KEPT = [
    *((ContinuousScheduler, name) for name in ("newcomers", "places", "calm")),
    *((ChunkedScheduler, prop.name) for prop in scheduler_promises.PROPERTIES),
    *((PrefixBlocks, prop.name) for prop in block_promises.PROPERTIES),
    *((add_rms_norm, prop.name) for prop in norm_promises.PROPERTIES),
]


class ShareOfBudget(BaseScheduler):
    """Whole prompts; a first one beyond the budget never runs."""

    first = 0
    calm = True

    def schedule(self):
        preemptions = self.num_preemptions
        work = [self._work(seq, seq.num_new) for seq in self.running[:] if self._ready(seq) and self._make_room(seq, seq.num_new)]
        budget = self.config.max_num_batched_tokens - len(work)
        max_new = budget + self.first
        while (not self.calm or self.num_preemptions == preemptions) and (seq := self._admit(max_new)) is not None:
            budget -= seq.num_new
            max_new = budget
            work.append(self._work(seq, seq.num_new))
        return self._plan(work)


class NeverCalm(ShareOfBudget):
    """Lets newcomers in whatever has happened before."""

    first = math.inf
    calm = False


class NoBudget(BaseScheduler):
    """Lets in whoever has a row."""

    def schedule(self):
        work = [self._work(seq, seq.num_new) for seq in self.running[:] if self._ready(seq) and self._make_room(seq, seq.num_new)]
        while (seq := self._admit(math.inf)) is not None:
            work.append(self._work(seq, seq.num_new))
        return self._plan(work)


class PromptsFirst(BaseScheduler):
    """Chunks without regard to who only needs one token."""

    def schedule(self):
        budget, work = self.config.max_num_batched_tokens, []
        for seq in sorted(self.running, key=lambda seq: -seq.num_new):
            num_new = min(seq.num_new, budget)
            if budget and self._ready(seq) and self._make_room(seq, num_new):
                work.append(self._work(seq, num_new))
                budget -= num_new
        while budget and (seq := self._admit(math.inf)) is not None:
            work.append(self._work(seq, min(seq.num_new, budget)))
            budget -= work[-1].num_new
        return self._plan(work)


class PastThePrompt(BaseScheduler):
    """Takes whoever is past its prompt for a decode, and so one that computes its output again."""

    def schedule(self):
        preemptions, budget, work = self.num_preemptions, self.config.max_num_batched_tokens, []
        for seq in sorted(self.running, key=lambda seq: seq.num_computed < seq.num_prompt):
            num_new = min(seq.num_new, budget)
            if budget and self._ready(seq) and self._make_room(seq, num_new):
                work.append(self._work(seq, num_new))
                budget -= num_new
        while self.num_preemptions == preemptions and budget and (seq := self._admit(math.inf)) is not None:
            work.append(self._work(seq, min(seq.num_new, budget)))
            budget -= work[-1].num_new
        return self._plan(work)


class OneNewcomer(ChunkedScheduler):
    """One newcomer a step."""

    def _admit(self, max_new):
        if self.num_steps == getattr(self, "let_in_at", None):
            return None
        self.let_in_at = self.num_steps
        return super()._admit(max_new)


class EntersNothing(PrefixBlocks):
    def commit(self, seq):
        pass


class ForgetsWhatIsFreed(PrefixBlocks):
    """Nobody finds a block that is in no table."""

    def _put_back(self, block):
        super()._put_back(block)
        self._forget(self._by_block.get(block))


class OneBlockLess(PrefixBlocks):
    """The last full block is never taken."""

    def _find(self, seq):
        return super()._find(seq)[: max(0, (seq.num_tokens - 1) // self.block_size - 1)]


class TrustsTheHash(PrefixBlocks):
    """A block whose hash is the same is taken for the same block."""

    def _hit(self, key, parent, tokens):
        return self._by_key.get(key)


class TrustsTheParentsHash(PrefixBlocks):
    """Its own tokens are compared, those before it only by their hash."""

    def _hit(self, key, parent, tokens):
        entry = self._by_key.get(key)
        return entry if entry is not None and entry.tokens == tokens else None


class LatestFirst(PrefixBlocks):
    """The block freed last is used first, as without a tree."""

    def _put_back(self, block):
        PagedBlocks._put_back(self, block)


class BeginningFirst(PrefixBlocks):
    """The beginning of a sequence goes before its end."""

    def free(self, seq):
        seq.block_table.reverse()
        super().free(seq)


class OneSaltForAll(PrefixBlocks):
    """Requests that must not share do."""

    def _tokens(self, seq, i):
        seq.request = replace(seq.request, cache_salt=0)
        return super()._tokens(seq, i)


def exact_sum(x, residual, weight, eps):
    """Normalises the sum as it was before it was rounded."""
    r = x.float() if residual is None else x.float() + residual.float()
    return norm_of(r, eps).to(x.dtype).mul_(weight), r.to(x.dtype)


def exact_product(x, residual, weight, eps):
    """Rounds once, after the weight."""
    r = x if residual is None else x + residual
    return (norm_of(r.float(), eps) * weight.float()).to(x.dtype), r


def one_stride(x, residual, weight, eps):
    """Takes the residual's rows to lie as those of x do."""
    T, H = x.shape
    if residual is not None:
        x = x + residual.as_strided((T, H), x.stride())
    return add_rms_norm(x, None, weight, eps)


def norm_of(r, eps):
    return r * (r.pow(2).mean(-1, keepdim=True) + eps).rsqrt()


WRONG = [
    (StaticScheduler, "places"),
    (ShareOfBudget, "newcomers"),
    (NoBudget, "newcomers"),
    (NoBudget, "places"),
    (NeverCalm, "calm"),
    (ContinuousScheduler, "pieces"),
    (ContinuousScheduler, "limit"),
    (ContinuousScheduler, "full"),
    (PromptsFirst, "full"),
    (PastThePrompt, "again"),
    (OneNewcomer, "pieces"),
    (PagedBlocks, "alive"),
    (EntersNothing, "alive"),
    (OneBlockLess, "alive"),
    (ForgetsWhatIsFreed, "kept"),
    (LatestFirst, "kept"),
    (TrustsTheHash, "collisions"),
    (TrustsTheParentsHash, "collisions"),
    (OneSaltForAll, "salt"),
    (LatestFirst, "order"),
    (BeginningFirst, "order"),
    (exact_sum, "rounding"),
    (exact_product, "rounding"),
    (one_stride, "apart"),
]


def names(pairs):
    return [f"{part.__name__}-{name}" for part, name in pairs]


@pytest.mark.parametrize(("part", "name"), KEPT, ids=names(KEPT))
def test_who_promises_keeps_it(part, name):
    result = check(PROMISES[name], part, examples=80)
    assert result.passed, (result.case, result.error)


@pytest.mark.parametrize(("part", "name"), WRONG, ids=names(WRONG))
def test_who_does_not_is_caught(part, name):
    """By what it does, not by an exception of its own, and each time."""
    result = check(PROMISES[name], part, examples=400, shrink=False)
    assert result.status == "failed", f"{part.__name__} has the property {name!r}"
    assert isinstance(result.error, AssertionError)
    assert not result.flaky


def test_a_suite_has_its_promises_only_when_asked():
    for slot, module in MODULES.items():
        assert suite_of(slot, promised=True) == [*suite_of(slot), *module.PROPERTIES]
        every = [prop.name for prop in suite_of(slot, promised=True)]
        assert len(set(every)) == len(every)
    assert suite_of("linear", promised=True) == suite_of("linear")
