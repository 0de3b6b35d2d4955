"""What one sum over the ranks costs, by its size.

From: an engine on several ranks; these functions run in them, through `ParallelExecutor.ask`. To: `scripts/tp_steps.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

BYTES = [2**10, 2**13, 2**16, 2**18, 2**20, 2**21, 2**23]
CALLS, ROUNDS = 20, 5


def time_all_reduces(executor: Any) -> list[dict]:
    """Microseconds of one sum over the ranks by its bytes: as the engine takes it, by the backend alone, and each small way alone."""
    group, dtype = executor.group, executor.cache.device_pool.dtype
    rows = []
    for num_bytes in BYTES:
        x = torch.zeros(1, num_bytes // dtype.itemsize, dtype=dtype, device=group.device)
        rows.append({"bytes": num_bytes, "us": microseconds(lambda x=x: group.all_reduce(x), group.on_gpu)})
        rows[-1]["backend_us"] = microseconds(lambda x=x: dist.all_reduce(x), group.on_gpu)
        for way in group.small:
            if way.fits(x):
                rows[-1][f"{type(way).__name__.lower()}_us"] = microseconds(lambda x=x, way=way: way.sum(x), group.on_gpu)
    return rows


def microseconds(call: Callable, on_gpu: bool) -> float:
    """Of one call: on a GPU recorded as one graph of CALLS, so that the host's time is not in it. The median of ROUNDS."""
    if not on_gpu:
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            times.append(1e6 * (time.perf_counter() - start) / CALLS)
        return median(times)
    from minfer.bench.timing import Recording

    recording = Recording([call] * CALLS)
    recording.time()
    return median(recording.time() for _ in range(ROUNDS))
