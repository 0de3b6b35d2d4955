"""The answers of chapter 15, computed."""

from __future__ import annotations

from minfer.course.toy_run import plans_of
from minfer.scheduler.chunked import ChunkedScheduler
from minfer.testing.fake_ray import FakeRay, Host
from minfer.traffic import plan_bytes

HOSTS = [Host({"GPU": 2}, {"GPU": 1})] * 3 + [Host({"GPU": 2}, {"GPU": 2})]


def placed_in_bundles() -> int:
    """Three free GPUs on three hosts: ranks that can be placed, a bundle each."""
    ray = FakeRay(HOSTS)
    return max(size for size in range(9) if ray.fits([{"GPU": 1}] * size, 0))


def placed_in_one_bundle() -> int:
    """The same where all ranks are one bundle."""
    ray = FakeRay(HOSTS)
    return max(size for size in range(1, 9) if ray.fits([{"GPU": size}], 0))


def eight_engines() -> int:
    """Eight engines of 100 tokens/s."""
    return 8 * 100


def four_pairs() -> int:
    """Four engines of two GPUs, 160 tokens/s each."""
    return 4 * 160


def _decode_plan(rows: int) -> int:
    """Bytes of a plan in which so many sequences decode and none needs a new block."""
    plans = plans_of(ChunkedScheduler, [(0, 8, 6)] * rows, rows=rows, budget=8 * rows, num_blocks=4 * rows)
    return plan_bytes(plans)[3]


def plan_of_one() -> int:
    """Bytes to each rank for a decode step of one sequence."""
    return _decode_plan(1)


def plan_of_128() -> int:
    """Bytes to each rank for a decode step of 128 sequences."""
    return _decode_plan(128)
